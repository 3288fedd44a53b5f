"""Operations on an endpoint that are done at once: ls, stat, mkdir, rename."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import operations, registry
from endpoints.gridftp.faults import FaultError
from transferapi.tasks import rules

from . import documents, filters, schemas
from .base import View, listing, result
from .errors import ApiError, BadRequest, endpoint_error
from .parsing import Document, query_number


def _path(text: str | None, name: str) -> str:
    if not text:
        raise BadRequest(f"{name}: is missing")
    return rules.path(text, name)


def _refusal(error: FaultError, family: str, endpoint: str, not_found: str = "ClientError.NotFound") -> ApiError:
    return endpoint_error(error.fault, f"ExternalError.{family}", endpoint, not_found=not_found)


class Ls(View):
    @schemas.operation(
        "List a folder",
        answer="file_list",
        query=["path", "show_hidden", "orderby", "filter", "limit", "offset", "fields"],
    )
    def get(self, request: Request, endpoint: str) -> Response:
        query = request.query_params
        limit = query_number(query.get("limit"), "limit", operations.MAX_ENTRIES, most=operations.MAX_ENTRIES)
        offset = query_number(query.get("offset"), "offset", 0, most=10**6)
        hidden = query.get("show_hidden", "1") not in ("0", "false", "False")
        keep = filters.listing_filter(query.getlist("filter"))
        terms = filters.order_terms(query.get("orderby"), filters.LISTING_ORDERS) or [("name", False)]
        path = query.get("path")
        try:
            found = operations.list_directory(self.user, endpoint, _path(path, "path") if path else None)
        except FaultError as error:
            raise _refusal(error, "DirListingFailed", endpoint) from None
        rows = [documents.file(entry) for entry in found.entries if hidden or not entry.name.startswith(".")]
        rows = [row for row in rows if keep(row)]
        for field, descending in reversed(terms):
            rows.sort(key=lambda row: _key(row[field]), reverse=descending)
        page = [filters.pick(row, query.get("fields")) for row in rows[offset : offset + limit]]
        return Response(
            listing(
                "file_list",
                page,
                endpoint=registry.canonical_name(found.endpoint),
                path=found.path,
                absolute_path=found.absolute_path,
                limit=limit,
                offset=offset,
                total=len(rows),
                rename_supported=True,
                symlink_supported=False,
            )
        )


def _key(value: Any) -> tuple[bool, Any]:
    """Sortable even where a server does not tell everything of every file."""
    return value is not None, value if value is not None else ""


class Stat(View):
    @schemas.operation("Look at one file or folder", answer="file", query=["path"])
    def get(self, request: Request, endpoint: str) -> Response:
        path = _path(request.query_params.get("path"), "path")
        try:
            _, entry = operations.stat(self.user, endpoint, path)
        except FaultError as error:
            raise _refusal(error, "StatFailed", endpoint, "NotFound") from None
        return Response(documents.file(entry))


class Mkdir(View):
    @schemas.operation("Make a folder", body="mkdir", answer="mkdir_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        path = _path(Document(request.data).required_text("path"), "path")
        try:
            operations.make_directory(self.user, endpoint, path)
        except FaultError as error:
            raise _refusal(error, "MkdirFailed", endpoint) from None
        answer = result(request, "DirectoryCreated", "The directory was created successfully", path=path)
        answer.data["DATA_TYPE"] = "mkdir_result"
        answer.status_code = 202
        return answer


class Rename(View):
    @schemas.operation("Rename a file or folder", body="rename", answer="result")
    def post(self, request: Request, endpoint: str) -> Response:
        document = Document(request.data)
        old = _path(document.required_text("old_path"), "old_path")
        new = _path(document.required_text("new_path"), "new_path")
        try:
            operations.rename(self.user, endpoint, old, new)
        except FaultError as error:
            raise _refusal(error, "RenameFailed", endpoint) from None
        return result(request, "FileRenamed", "File or directory renamed successfully")
