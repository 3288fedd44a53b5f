"""Bookmarks."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import bookmarks
from endpoints.errors import BookmarkNotFoundError
from endpoints.models import Bookmark

from . import schemas
from .base import View, listing, result
from .parsing import Document


def _document(row: Bookmark) -> dict[str, Any]:
    return {
        "DATA_TYPE": "bookmark",
        "id": str(row.pk),
        "name": row.name,
        "endpoint_id": str(row.endpoint_id),
        "path": row.path,
        "pinned": row.pinned,
    }


def bookmark_id(text: str) -> uuid.UUID:
    """An id that is none is an unknown one."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise BookmarkNotFoundError(text[:100]) from None


class BookmarkList(View):
    @schemas.operation("List your bookmarks", answer="bookmark_list")
    def get(self, request: Request) -> Response:
        return Response(listing("bookmark_list", [_document(row) for row in bookmarks.all_of(self.user)]))


class BookmarkCreate(View):
    @schemas.operation("Make a bookmark", body="bookmark", answer="bookmark", status=201)
    def post(self, request: Request) -> Response:
        document = Document(request.data, "bookmark")
        row = bookmarks.create(
            self.user,
            name=document.required_text("name"),
            endpoint=document.required_text("endpoint_id"),
            path=document.required_text("path"),
            pinned=bool(document.flag("pinned")),
        )
        return Response(_document(row), status=201)


class BookmarkDetail(View):
    @schemas.operation("Show a bookmark", answer="bookmark")
    def get(self, request: Request, bookmark: str) -> Response:
        return Response(_document(bookmarks.get(self.user, bookmark_id(bookmark))))

    @schemas.operation("Change a bookmark", body="bookmark_change", answer="bookmark")
    def put(self, request: Request, bookmark: str) -> Response:
        document = Document(request.data, "bookmark")
        name, path, pinned = document.text("name"), document.text("path"), document.flag("pinned")
        return Response(
            _document(bookmarks.update(self.user, bookmark_id(bookmark), name=name, path=path, pinned=pinned))
        )

    @schemas.operation("Delete a bookmark", answer="result")
    def delete(self, request: Request, bookmark: str) -> Response:
        bookmarks.delete(self.user, bookmark_id(bookmark))
        return result(request, "Deleted", "Bookmark deleted successfully")
