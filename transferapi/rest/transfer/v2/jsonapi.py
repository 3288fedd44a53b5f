"""The base of the views below /v2/ of the Transfer API: documents and errors of JSON:API (jsonapi.org, 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.rest.http.base import View
from transferapi.rest.http.content_negotiation import FirstRenderer, LeanJSONRenderer
from transferapi.rest.http.errors import request_id
from transferapi.rest.http.parsing import StrictJSONParser
from transferapi.rest.openapi import description

MEDIA_TYPE = "application/vnd.api+json"
F = TypeVar("F", bound=Callable[..., Any])


class JsonApiRenderer(LeanJSONRenderer):
    media_type = MEDIA_TYPE


class JsonApiParser(StrictJSONParser):
    media_type = MEDIA_TYPE


class JsonApiView(View):
    """Clients that accept "application/json" get this form, too."""

    parser_classes = (StrictJSONParser, JsonApiParser)
    renderer_classes: Sequence[type[BaseRenderer]] = (JsonApiRenderer,)
    content_negotiation_class = FirstRenderer

    def handle_exception(self, exc: Exception) -> Response:
        answer = super().handle_exception(exc)
        told = {"status": str(answer.status_code), "code": answer.data["code"], "title": answer.data["code"]}
        meta = {"request_id": answer.data["request_id"]}
        answer.data = {"errors": [{**told, "detail": answer.data["message"]}], "meta": meta}
        return answer


def operation(summary: str, *, answer: str, status: int = 200, body: str | None = None) -> Callable[[F], F]:
    """Describe a method as `description.operation` does, for JSON:API."""
    return description.operation(
        summary, answer=answer, status=status, body=body, media_type=MEDIA_TYPE, error="jsonapi_errors"
    )


def answered(request: Request, status: int = 200, **parts: Any) -> Response:
    """A document with these members."""
    return Response({**parts, "meta": {"request_id": request_id(request)}}, status=status)
