"""Operations on an endpoint that are done at once: ls, stat, mkdir, rename, symlink."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import operations, patience, registry
from endpoints.gridftp.faults import FaultError
from endpoints.listings import MAX_ENTRIES
from endpoints.paths import CONTROL_IN_PATH
from endpoints.patience import Seat
from endpoints.permissions import Verb
from identity.models import User
from transferapi.tasks import options, rules

from . import documents, filters, listings, schemas
from .base import View, result
from .errors import ApiError, BadRequest, endpoint_error
from .long_answers import answered
from .parsing import Document, query_limit, query_number, query_paths


def _local_user(name: str | None) -> None:
    if name is not None:
        options.refuse("local_user")


def _query_path(request: Request) -> str | None:
    _local_user(request.query_params.get("local_user"))
    given = query_paths(request, "path")
    return rules.path(given[-1], "path") if given else None


def _body(request: Request, data_type: str) -> Document:
    document = Document(request.data, data_type)
    _local_user(document.text("local_user"))
    return document


def _body_path(document: Document, name: str) -> str:
    return rules.path(document.required_text(name), name)


def _refusal(error: FaultError, user: User, reference: str, family: str) -> ApiError:
    """What the endpoint said, with the endpoint's name and servers, which the refusal itself does not have."""
    endpoint = registry.resolve(user, reference, Verb.VIEW)
    servers = ", ".join(f"{one.hostname}:{one.port}" for one in registry.servers(endpoint))
    name = f"{endpoint.display_name or registry.canonical_name(endpoint)} ({endpoint.pk})"
    return endpoint_error(error, family, name, servers or ("none" if endpoint.host_id is None else "of its host"))


class Ls(View):
    @schemas.operation(
        "List a folder",
        answer="file_list",
        query=["path", "show_hidden", "orderby", "filter", "limit", "offset", "fields"],
    )
    def get(self, request: Request, endpoint: str) -> HttpResponseBase:
        query = request.query_params
        limit = query_limit(request, MAX_ENTRIES, MAX_ENTRIES)
        offset = query_number(query.get("offset"), "offset", 0, most=10**6)
        hidden = query.get("show_hidden", "1") not in ("0", "false", "False")
        selection = listings.Selection(query_paths(request, "filter"), hidden=hidden)
        terms = filters.order_terms(query.get("orderby"), listings.FIELDS) or [("name", False)]
        path = _query_path(request)
        with ExitStack() as until_refused:
            seat = until_refused.enter_context(patience.waiting(self.user.pk, patience.OPERATIONS))
            found = self._listed(endpoint, path, seat)
            entries = listings.ordered(selection.of(found.entries), terms)
            page = entries[offset : offset + limit]
            rows = documents.Rows(page, filters.picked(documents.file, query.get("fields")))
            place = {"limit": limit, "offset": offset, "total": len(entries), "length": len(page)}
            answer = answered(request, {**_folder(found), **place, "DATA": rows}, seat)
            until_refused.pop_all()
            return answer

    def _listed(self, endpoint: str, path: str | None, seat: Seat) -> operations.Listing:
        try:
            return operations.list_directory(self.user, endpoint, path, seat=seat)
        except FaultError as error:
            raise _refusal(error, self.user, endpoint, "DirListingFailed") from None


def _folder(found: operations.Listing) -> dict[str, Any]:
    return {
        "DATA_TYPE": "file_list",
        "endpoint": registry.canonical_name(found.endpoint),
        "path": found.path,
        "absolute_path": found.absolute_path,
        "rename_supported": True,
        "symlink_supported": found.links,
    }


class Stat(View):
    @schemas.operation("Look at one file or folder", answer="file", query=["path"])
    def get(self, request: Request, endpoint: str) -> Response:
        path = _query_path(request)
        if path is None:
            raise BadRequest("path: is missing")
        try:
            _, entry = operations.stat(self.user, endpoint, path)
        except FaultError as error:
            raise _refusal(error, self.user, endpoint, "StatFailed") from None
        return Response(documents.file(entry))


class Mkdir(View):
    @schemas.operation("Make a folder", body="mkdir", answer="mkdir_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        path = _body_path(_body(request, "mkdir"), "path")
        try:
            operations.make_directory(self.user, endpoint, path)
        except FaultError as error:
            raise _refusal(error, self.user, endpoint, "MkdirFailed") from None
        answer = result(request, "DirectoryCreated", "The directory was created successfully", path=path)
        answer.data["DATA_TYPE"] = "mkdir_result"
        answer.status_code = 202
        return answer


class Rename(View):
    @schemas.operation("Rename a file or folder", body="rename", answer="result")
    def post(self, request: Request, endpoint: str) -> Response:
        document = _body(request, "rename")
        old, new = _body_path(document, "old_path"), _body_path(document, "new_path")
        try:
            operations.rename(self.user, endpoint, old, new)
        except FaultError as error:
            raise _refusal(error, self.user, endpoint, "RenameFailed") from None
        return result(request, "FileRenamed", "File or directory renamed successfully")


class Symlink(View):
    @schemas.operation("Make a symbolic link", body="symlink", answer="symlink_result", status=202)
    def post(self, request: Request, endpoint: str) -> Response:
        document = _body(request, "symlink")
        target, path = _link_text(document.required_text("symlink_target")), _body_path(document, "path")
        try:
            operations.make_symlink(self.user, endpoint, target, path)
        except FaultError as error:
            raise _refusal(error, self.user, endpoint, "SymlinkFailed") from None
        answer = result(request, "SymlinkCreated", "The symlink was created successfully", path=path)
        answer.data["DATA_TYPE"] = "symlink_result"
        answer.status_code = 202
        return answer


def _link_text(text: str) -> str:
    """Any text without controls: it may lead up, or nowhere."""
    if not text or len(text) > 4096 or CONTROL_IN_PATH.search(text):
        raise BadRequest("symlink_target: a path of at most 4096 characters is wanted here, without control characters")
    return text
