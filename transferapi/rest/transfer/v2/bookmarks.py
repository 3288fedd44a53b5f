"""Bookmarks as JSON:API (`/v2/bookmarks`): for the SDK's experimental client of the Transfer API."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks
from transferapi.rest.http.parsing import Document, part
from transferapi.rest.transfer.bookmarks import documents
from transferapi.rest.transfer.bookmarks.views import bookmark_id

from .jsonapi import JsonApiView, answered, operation


class JsonApiBookmarkList(JsonApiView):
    @operation("List your bookmarks", answer="bookmark_resources")
    def get(self, request: Request) -> Response:
        return answered(request, data=[documents.RESOURCE.document(row) for row in bookmarks.all_of(self.user)])

    @operation("Make a bookmark", body="bookmark_resource", answer="bookmark_resource", status=201)
    def post(self, request: Request) -> Response:
        data = part(Document(request.data), "data")
        attributes = part(data, "attributes")
        collection = part(part(part(data, "relationships"), "collection"), "data")
        given = documents.GIVEN_ATTRIBUTES.values(attributes)
        row = bookmarks.create(
            self.user,
            name=given["name"],
            endpoint=collection.required_text("id"),
            path=given["path"],
            pinned=bool(given["pinned"]),
        )
        return answered(request, 201, data=documents.RESOURCE.document(row))


class JsonApiBookmarkDetail(JsonApiView):
    @operation("Show a bookmark", answer="bookmark_resource")
    def get(self, request: Request, bookmark: str) -> Response:
        return answered(request, data=documents.RESOURCE.document(bookmarks.get(self.user, bookmark_id(bookmark))))

    @operation("Change a bookmark", body="bookmark_resource_change", answer="bookmark_resource")
    def patch(self, request: Request, bookmark: str) -> Response:
        attributes = part(part(Document(request.data), "data"), "attributes")
        given = documents.CHANGED_ATTRIBUTES.values(attributes)
        row = bookmarks.update(self.user, bookmark_id(bookmark), **given)
        return answered(request, data=documents.RESOURCE.document(row))

    @operation("Delete a bookmark", answer="jsonapi_done")
    def delete(self, request: Request, bookmark: str) -> Response:
        bookmarks.delete(self.user, bookmark_id(bookmark))
        return answered(request)
