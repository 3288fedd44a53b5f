"""Bookmarks as JSON:API (`/v2/bookmarks`): what the SDK's experimental client of the Transfer API asks for."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks
from endpoints.models import Bookmark

from .bookmarks import bookmark_id
from .jsonapi import JsonApiView, answered, operation
from .parsing import Document, part


def _resource(row: Bookmark) -> dict[str, Any]:
    return {
        "type": "Bookmark",
        "id": str(row.pk),
        "attributes": {"name": row.name, "path": row.path, "pinned": row.pinned},
        "relationships": {"collection": {"data": {"type": "Collection", "id": str(row.endpoint_id)}}},
    }


class BookmarkList(JsonApiView):
    @operation("List your bookmarks", answer="bookmark_resources")
    def get(self, request: Request) -> Response:
        return answered(request, data=[_resource(row) for row in bookmarks.all_of(self.user)])

    @operation("Make a bookmark", body="bookmark_resource", answer="bookmark_resource", status=201)
    def post(self, request: Request) -> Response:
        data = part(Document(request.data), "data")
        attributes = part(data, "attributes")
        collection = part(part(part(data, "relationships"), "collection"), "data")
        row = bookmarks.create(
            self.user,
            name=attributes.required_text("name"),
            endpoint=collection.required_text("id"),
            path=attributes.required_text("path"),
            pinned=bool(attributes.flag("pinned")),
        )
        return answered(request, 201, data=_resource(row))


class BookmarkDetail(JsonApiView):
    @operation("Show a bookmark", answer="bookmark_resource")
    def get(self, request: Request, bookmark: str) -> Response:
        return answered(request, data=_resource(bookmarks.get(self.user, bookmark_id(bookmark))))

    @operation("Change a bookmark", body="bookmark_resource_change", answer="bookmark_resource")
    def patch(self, request: Request, bookmark: str) -> Response:
        attributes = part(part(Document(request.data), "data"), "attributes")
        name, path, pinned = attributes.text("name"), attributes.text("path"), attributes.flag("pinned")
        row = bookmarks.update(self.user, bookmark_id(bookmark), name=name, path=path, pinned=pinned)
        return answered(request, data=_resource(row))

    @operation("Delete a bookmark", answer="jsonapi_done")
    def delete(self, request: Request, bookmark: str) -> Response:
        bookmarks.delete(self.user, bookmark_id(bookmark))
        return answered(request)
