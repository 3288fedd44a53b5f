"""The routes of the Transfer API below `/v2/`: documents and errors are those of JSON:API (jsonapi.org, 1.1).

Bookmarks are for the SDK's experimental client of the Transfer API. Routes of products that this service does not have
(subscriptions, tunnels, streams) answer 501: clients do not try again after it, and know that the service is at fault
and not what they asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from django.urls import path
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks, registry
from endpoints.error_meanings import ApiError
from endpoints.permissions import Permission
from transferapi.rest.http.base import View
from transferapi.rest.http.content_negotiation import FirstRenderer, LeanJSONRenderer
from transferapi.rest.http.errors import request_id
from transferapi.rest.http.parsing import Document, StrictJSONParser, part
from transferapi.rest.openapi import description

from . import bookmark_documents
from .bookmark_views import bookmark_id

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


def _not_here(what: str) -> NoReturn:
    raise ApiError(501, "ServiceError.NotSupported", f"This service has no {what}")


def _refusal(summary: str, what: str) -> Callable[..., Response]:
    """A method of a view."""

    @operation(f"{summary}: there are none", answer="jsonapi_errors", status=501)
    def refuse(view: JsonApiView, request: Request, **in_path: str) -> Response:
        _not_here(what)

    return refuse


class Subscription(View):
    @description.operation("Put an endpoint under a subscription: there are none", answer="error", status=501)
    def put(self, request: Request, endpoint: str) -> Response:
        registry.resolve(self.user, endpoint, Permission.MANAGE)
        _not_here("subscriptions")


class Tunnels(JsonApiView):
    get = _refusal("List tunnels", "tunnels")
    post = _refusal("Make a tunnel", "tunnels")


class TunnelDetail(JsonApiView):
    get = _refusal("Show a tunnel", "tunnels")
    patch = _refusal("Change a tunnel", "tunnels")
    delete = _refusal("Delete a tunnel", "tunnels")


class TunnelEvents(JsonApiView):
    get = _refusal("List the events of a tunnel", "tunnels")


class StreamAccessPoints(JsonApiView):
    get = _refusal("List stream access points", "stream access points")


class StreamAccessPoint(JsonApiView):
    get = _refusal("Show a stream access point", "stream access points")


class JsonApiBookmarkList(JsonApiView):
    @operation("List your bookmarks", answer="bookmark_resources")
    def get(self, request: Request) -> Response:
        return answered(
            request, data=[bookmark_documents.RESOURCE.document(row) for row in bookmarks.all_of(self.user)]
        )

    @operation("Make a bookmark", body="bookmark_resource", answer="bookmark_resource", status=201)
    def post(self, request: Request) -> Response:
        data = part(Document(request.data), "data")
        attributes = part(data, "attributes")
        collection = part(part(part(data, "relationships"), "collection"), "data")
        given = bookmark_documents.GIVEN_ATTRIBUTES.values(attributes)
        row = bookmarks.create(
            self.user,
            name=given["name"],
            endpoint=collection.required_text("id"),
            path=given["path"],
            pinned=bool(given["pinned"]),
        )
        return answered(request, 201, data=bookmark_documents.RESOURCE.document(row))


class JsonApiBookmarkDetail(JsonApiView):
    @operation("Show a bookmark", answer="bookmark_resource")
    def get(self, request: Request, bookmark: str) -> Response:
        return answered(
            request, data=bookmark_documents.RESOURCE.document(bookmarks.get(self.user, bookmark_id(bookmark)))
        )

    @operation("Change a bookmark", body="bookmark_resource_change", answer="bookmark_resource")
    def patch(self, request: Request, bookmark: str) -> Response:
        attributes = part(part(Document(request.data), "data"), "attributes")
        given = bookmark_documents.CHANGED_ATTRIBUTES.values(attributes)
        row = bookmarks.update(self.user, bookmark_id(bookmark), **given)
        return answered(request, data=bookmark_documents.RESOURCE.document(row))

    @operation("Delete a bookmark", answer="jsonapi_done")
    def delete(self, request: Request, bookmark: str) -> Response:
        bookmarks.delete(self.user, bookmark_id(bookmark))
        return answered(request)


urlpatterns = [
    path("v2/bookmarks", JsonApiBookmarkList.as_view()),
    path("v2/bookmarks/<str:bookmark>", JsonApiBookmarkDetail.as_view()),
    path("v2/tunnels", Tunnels.as_view()),
    path("v2/tunnels/<str:tunnel>", TunnelDetail.as_view()),
    path("v2/tunnels/<str:tunnel>/events", TunnelEvents.as_view()),
    path("v2/stream_access_points", StreamAccessPoints.as_view()),
    path("v2/stream_access_points/<str:stream>", StreamAccessPoint.as_view()),
]
