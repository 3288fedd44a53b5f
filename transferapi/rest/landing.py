"""The front door: what this is, and the whole description, for people and programs that come without knowing."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from .base import View
from .documents import VERSION
from .formats import LeanJSONRenderer


class Landing(View):
    """Open to everybody."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(
            {
                "service": "Waybill",
                "description": "Moves research data between GridFTP endpoints: ask once, it rides out every fault.",
                "api_version": VERSION,
                "authentication": "Authorization: Bearer TOKEN, with a token from `waybill token NAME`",
                "links": {
                    "openapi": f"/{VERSION}/openapi",
                    "endpoint_search": f"/{VERSION}/endpoint_search?filter_scope=my-endpoints",
                    "submission_id": f"/{VERSION}/submission_id",
                    "transfer": f"/{VERSION}/transfer",
                    "delete": f"/{VERSION}/delete",
                    "task_list": f"/{VERSION}/task_list",
                },
            }
        )


#: Two who ask first would make it at once, which its library fails at.
_making = threading.Lock()


def _description() -> dict[str, Any]:
    """Made once: it takes a third of a second, and anybody may ask for it."""
    with _making:
        return _made_description()


@cache
def _made_description() -> dict[str, Any]:
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    found: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


class OpenApi(View):
    """The description of the API, for everybody."""

    authentication_classes = ()
    permission_classes = ()
    renderer_classes = (LeanJSONRenderer, OpenApiJsonRenderer)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(_description())
