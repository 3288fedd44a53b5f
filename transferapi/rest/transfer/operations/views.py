"""Operations on an endpoint that are done at once: ls, stat, mkdir, rename, symlink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import concurrency_limits, endpoint_view, operations
from endpoints.files import destination_check
from endpoints.gridftp.faults import FaultError
from endpoints.listing_limits import MAX_ENTRIES
from endpoints.paths import CONTROL_IN_PATH
from identity.models import User
from transferapi.rest.http.base import View, result
from transferapi.rest.http.errors import ApiError, BadRequest, endpoint_error
from transferapi.rest.http.json_documents import Rows
from transferapi.rest.http.long_answers import answered
from transferapi.rest.http.parsing import query_page, query_paths
from transferapi.rest.openapi import description
from transferapi.rest.openapi.document_types import RequestDocument
from transferapi.rest.transfer import filters
from transferapi.tasks import options, request_rules

from . import documents, listings


def _local_user(name: str | None) -> None:
    if name is not None:
        options.refuse("local_user")


def query_path(request: Request) -> str | None:
    _local_user(request.query_params.get("local_user"))
    given = query_paths(request, "path")
    return request_rules.path(given[-1], "path") if given else None


def _given(request: Request, declared: RequestDocument) -> dict[str, Any]:
    document = declared.open(request.data)
    _local_user(document.text("local_user"))
    return declared.values(document)


def _path(given: dict[str, Any], name: str) -> str:
    return request_rules.path(given[name], name)


def required_path(request: Request) -> str:
    """Raises BadRequest."""
    path = query_path(request)
    if path is None:
        raise BadRequest("path: is missing")
    return path


def refusal(error: FaultError, user: User, reference: str, family: str) -> ApiError:
    """The error of the endpoint, with the endpoint's name and servers, which the fault does not have."""
    return endpoint_error(error, family, *endpoint_view.in_words(user, reference))


@contextmanager
def refused(user: User, reference: str, family: str) -> Iterator[None]:
    """Raises ApiError for a fault of the endpoint."""
    try:
        yield
    except FaultError as error:
        raise refusal(error, user, reference, family) from None


class Ls(View):
    @description.operation(
        "List a folder",
        answer="file_list",
        query="path show_hidden incomplete orderby filter limit offset fields",
    )
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        query = request.query_params
        limit, offset = query_page(query, MAX_ENTRIES, MAX_ENTRIES, 10**6)
        hidden = query.get("show_hidden", "1") not in ("0", "false", "False")
        partial = query.get("incomplete", "0") in ("1", "true", "True")
        selection = listings.EntrySelection(query_paths(request, "filter"), hidden=hidden)
        terms = filters.order_terms(query.get("orderby"), listings.FIELDS) or [("name", False)]
        path = query_path(request)
        with ExitStack() as until_refused:
            slot = until_refused.enter_context(
                concurrency_limits.RequestSlot(self.user.pk, concurrency_limits.OPERATIONS)
            )
            with refused(self.user, endpoint, "DirListingFailed"):
                found = operations.list_directory(self.user, endpoint, path, slot=slot, partial=partial)
            entries = listings.ordered(selection.of(found.entries), terms)
            page = entries[offset : offset + limit]
            rows = Rows(page, filters.picked(documents.FILE.document, query.get("fields")))
            place = {"limit": limit, "offset": offset, "total": len(entries), "length": len(page)}
            answer = answered(request, {**documents.folder(found, endpoint), **place, "DATA": rows}, slot)
            until_refused.pop_all()
            return answer


class Stat(View):
    @description.operation("Look at one file or folder", answer="file", query="path")
    def get(self, request: Request, endpoint: str) -> Response:
        path = required_path(request)
        with refused(self.user, endpoint, "StatFailed"):
            _, entry = operations.stat(self.user, endpoint, path)
        return Response(documents.FILE.document(entry))


class DestinationCheck(View):
    @description.operation("See whether files could be written to a folder", answer="destination", query="path")
    def get(self, request: Request, endpoint: str) -> Response:
        path = required_path(request)
        with refused(self.user, endpoint, "StatFailed"):
            found = destination_check.look(self.user, endpoint, path)
        return Response(documents.DESTINATION.document(found))


class Mkdir(View):
    @description.operation("Make a folder", body="mkdir", answer="mkdir_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        path = _path(_given(request, documents.MKDIR), "path")
        with refused(self.user, endpoint, "MkdirFailed"):
            operations.make_directory(self.user, endpoint, path)
        message = "The directory was created successfully"
        return result(request, "DirectoryCreated", message, 202, DATA_TYPE="mkdir_result", path=path)


class RenameView(View):
    @description.operation("Rename a file or folder", body="rename", answer="result")
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(request, documents.RENAME)
        old, new = _path(given, "old_path"), _path(given, "new_path")
        with refused(self.user, endpoint, "RenameFailed"):
            operations.rename(self.user, endpoint, old, new)
        return result(request, "FileRenamed", "File or directory renamed successfully")


class Symlink(View):
    @description.operation("Make a symbolic link", body="symlink", answer="symlink_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(request, documents.SYMLINK)
        target, path = _link_text(given["symlink_target"]), _path(given, "path")
        with refused(self.user, endpoint, "SymlinkFailed"):
            operations.make_symlink(self.user, endpoint, target, path)
        message = "The symlink was created successfully"
        return result(request, "SymlinkCreated", message, 202, DATA_TYPE="symlink_result", path=path)


def _link_text(text: str) -> str:
    """Any text without control characters: the target need not exist, and may contain ".."."""
    if not text or len(text) > 4096 or CONTROL_IN_PATH.search(text):
        raise BadRequest("symlink_target: expected a path of at most 4096 characters, without control characters")
    return text
