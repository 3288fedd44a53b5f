"""Bookmarks."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks
from endpoints.errors import BookmarkNotFoundError
from transferapi.rest.http.base import View, result
from transferapi.rest.http.parsing import parse_id
from transferapi.rest.openapi import description

from . import bookmark_documents


def bookmark_id(text: str) -> uuid.UUID:
    return parse_id(text, BookmarkNotFoundError(text[:100]))


class BookmarkList(View):
    @description.operation("List your bookmarks", answer="bookmark_list")
    def get(self, request: Request) -> Response:
        return Response(bookmark_documents.BOOKMARK_LIST.of(bookmarks.all_of(self.user)))


class BookmarkCreate(View):
    @description.operation("Make a bookmark", body="bookmark", answer="bookmark", status=201)
    def post(self, request: Request) -> Response:
        given = bookmark_documents.BOOKMARK_REQUEST.read(request.data)
        row = bookmarks.create(
            self.user,
            name=given["name"],
            endpoint=given["endpoint_id"],
            path=given["path"],
            pinned=bool(given["pinned"]),
        )
        return Response(bookmark_documents.BOOKMARK.document(row), status=201)


class BookmarkDetail(View):
    @description.operation("Show a bookmark", answer="bookmark")
    def get(self, request: Request, bookmark: str) -> Response:
        return Response(bookmark_documents.BOOKMARK.document(bookmarks.get(self.user, bookmark_id(bookmark))))

    @description.operation("Change a bookmark", body="bookmark_change", answer="bookmark")
    def put(self, request: Request, bookmark: str) -> Response:
        given = bookmark_documents.BOOKMARK_CHANGE.read(request.data)
        return Response(
            bookmark_documents.BOOKMARK.document(bookmarks.update(self.user, bookmark_id(bookmark), **given))
        )

    @description.operation("Delete a bookmark", answer="result")
    def delete(self, request: Request, bookmark: str) -> Response:
        bookmarks.delete(self.user, bookmark_id(bookmark))
        return result(request, "Deleted", "Bookmark deleted successfully")
