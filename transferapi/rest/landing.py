"""The front door: what this is, and the whole description, for people and programs that come without knowing."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.version import service_version

from .http.base import View
from .http.content_negotiation import LeanJSONRenderer
from .transfer import VERSION


class Landing(View):
    """Open to everybody."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> Response:
        return Response(
            {
                "service": "Waybill",
                "description": "Moves research data between GridFTP endpoints: ask once, it tries again after faults.",
                "version": service_version(),
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


Renderer = LeanJSONRenderer | OpenApiJsonRenderer
#: The generator fails when two threads use it at once.
_making = threading.Lock()


@dataclass(frozen=True)
class RenderedDocument:
    """The octets of an answer, which all requests share, and their entity tag (RFC 9110 section 8.8.3)."""

    content: bytes
    etag: str


_rendered: dict[type[Renderer], RenderedDocument] = {}


def description(renderer: type[Renderer]) -> RenderedDocument:
    """The OpenAPI description in the format of a renderer.

    It is rendered once for each process, because anybody may request it: rendering takes up to 25 ms each time.
    """
    with _making:
        if renderer not in _rendered:
            _rendered[renderer] = _render(renderer)
        return _rendered[renderer]


def prepare() -> None:
    """Render all formats. The web server calls this before it forks, so that its processes share the octets."""
    for renderer in OpenApi.renderer_classes:
        description(renderer)


def _render(renderer: type[Renderer]) -> RenderedDocument:
    content = renderer().render(_description())
    assert isinstance(content, bytes)
    return RenderedDocument(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def _description() -> dict[str, Any]:
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    found: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


class OpenApi(View):
    """The description of the API, for everybody. A client that has it already gets 304."""

    authentication_classes = ()
    permission_classes = ()
    renderer_classes = (LeanJSONRenderer, OpenApiJsonRenderer)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponseBase:
        renderer: Any = request.accepted_renderer
        found = description(type(renderer))
        answer = HttpResponse(found.content, content_type=renderer.media_type)
        answer["ETag"] = found.etag
        # A cache may keep it, and asks whether it is still the same.
        answer["Cache-Control"] = "no-cache"
        return get_conditional_response(request._request, etag=found.etag, response=answer) or answer
