"""Operations on an endpoint that are done at once: ls, stat, mkdir, rename, symlink.

`ls` also answers with lines of JSON (`application/x-ndjson`): the entries are sent unsorted, as they come. The
first line is about the folder, each further one is an entry, and the last one says how it ended: `listing_end` with
the number of entries, and in `incomplete` why some are missing; or the error with which it broke off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.http import HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import concurrency_limits, endpoint_view, operations
from endpoints.error_meanings import ApiError, endpoint_error
from endpoints.files import destination_check
from endpoints.files.listings import ListingStream
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError
from endpoints.listing_limits import MAX_ENTRIES
from endpoints.paths import CONTROL_IN_PATH
from identity.models import User
from transferapi.rest.http import errors
from transferapi.rest.http.base import View, result
from transferapi.rest.http.content_negotiation import FirstRenderer
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.json_documents import PART, Rows, dumps
from transferapi.rest.http.long_answers import answered, paced
from transferapi.rest.http.parsing import query_page, query_paths
from transferapi.rest.openapi import description
from transferapi.rest.openapi.document_types import RequestDocument
from transferapi.tasks import options, request_rules

from . import filters, listings, operation_documents


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
            rows = Rows(page, filters.picked(operation_documents.FILE.document, query.get("fields")))
            place = {"limit": limit, "offset": offset, "total": len(entries), "length": len(page)}
            answer = answered(request, {**operation_documents.folder(found, endpoint), **place, "DATA": rows}, slot)
            until_refused.pop_all()
            return answer


class Stat(View):
    @description.operation("Look at one file or folder", answer="file", query="path")
    def get(self, request: Request, endpoint: str) -> Response:
        path = required_path(request)
        with refused(self.user, endpoint, "StatFailed"):
            _, entry = operations.stat(self.user, endpoint, path)
        return Response(operation_documents.FILE.document(entry))


class DestinationCheck(View):
    @description.operation("See whether files could be written to a folder", answer="destination", query="path")
    def get(self, request: Request, endpoint: str) -> Response:
        path = required_path(request)
        with refused(self.user, endpoint, "StatFailed"):
            found = destination_check.look(self.user, endpoint, path)
        return Response(operation_documents.DESTINATION.document(found))


class Mkdir(View):
    @description.operation("Make a folder", body="mkdir", answer="mkdir_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        path = _path(_given(request, operation_documents.MKDIR), "path")
        with refused(self.user, endpoint, "MkdirFailed"):
            operations.make_directory(self.user, endpoint, path)
        message = "The directory was created successfully"
        return result(request, "DirectoryCreated", message, 202, DATA_TYPE="mkdir_result", path=path)


class RenameView(View):
    @description.operation("Rename a file or folder", body="rename", answer="result")
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(request, operation_documents.RENAME)
        old, new = _path(given, "old_path"), _path(given, "new_path")
        with refused(self.user, endpoint, "RenameFailed"):
            operations.rename(self.user, endpoint, old, new)
        return result(request, "FileRenamed", "File or directory renamed successfully")


class Symlink(View):
    @description.operation("Make a symbolic link", body="symlink", answer="symlink_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        given = _given(request, operation_documents.SYMLINK)
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


LINES = "application/x-ndjson"


class ListingView(View):
    content_negotiation_class = FirstRenderer

    @description.lines("List a folder as its entries arrive", LINES, query="path fields")
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        path = query_path(request)
        document = filters.picked(operation_documents.FILE.document, request.query_params.get("fields"))
        with refused(self.user, endpoint, "DirListingFailed"):
            stream = ListingStream(self.user, endpoint, path)

        def ended(error: FaultError) -> dict[str, Any]:
            fault = refusal(error, self.user, endpoint, "DirListingFailed")
            return {"DATA_TYPE": "error", **errors.document(request, fault.code, fault.message)}

        lines = _lines(stream, endpoint, document, ended)
        answer = StreamingHttpResponse(paced(lines), content_type=LINES)
        # A proxy in front of this service passes each part on at once.
        answer["X-Accel-Buffering"] = "no"
        # The web server closes the answer also where nothing of it was sent.
        answer._resource_closers.append(stream.close)  # type: ignore[attr-defined]
        return answer


def _lines(stream: ListingStream, asked: str, document: Any, ended: Any) -> Iterator[bytes]:
    found = 0
    try:
        folder = operation_documents.folder(stream.folder, asked)
        del folder["incomplete"]  # only the last line can say it
        yield _json({**folder, "DATA_TYPE": "listing"})
        for batch in stream:
            found += len(batch)
            for start in range(0, len(batch), PART):
                yield _part(batch[start : start + PART], document)
        missing = {"incomplete": stream.incomplete} if stream.incomplete else {}
        yield _json({"DATA_TYPE": "listing_end", "total": found, **missing})
    except FaultError as error:
        yield _json(ended(error))


def _part(entries: Sequence[Entry], document: Any) -> bytes:
    with concurrency_limits.cpu_lock:
        return b"".join(_json(document(entry)) for entry in entries)


def _json(line: dict[str, Any]) -> bytes:
    """No line of it contains a line feed."""
    return dumps(line) + b"\n"
