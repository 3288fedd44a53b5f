"""Submit transfers and deletes. Unknown fields are ignored, as in the Transfer API, and named in the answer."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

from rest_framework.request import Request
from rest_framework.response import Response

from identity.models import User
from transferapi.rest.http.base import LargeBodies, View, result
from transferapi.rest.http.content_negotiation import TextXMLParser, XMLParser
from transferapi.rest.http.errors import request_id, resource
from transferapi.rest.http.parsing import Document, ItemsParser
from transferapi.rest.openapi import description
from transferapi.tasks import options
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.submission import (
    DeleteRequest,
    TransferItem,
    TransferRequest,
    check_delete,
    check_transfer,
    submit_delete,
    submit_transfer,
)

from . import submission_documents

SYMLINK = submission_documents.SYMLINK_ITEM.name


class SubmissionId(View):
    @description.operation("Get an id that makes a submission happen exactly once", answer="submission_id")
    def get(self, request: Request) -> Response:
        return Response({"DATA_TYPE": "submission_id", "value": str(uuid.uuid4())})


class ItemsView(LargeBodies):
    """Takes long lists of items."""

    parser_classes = (ItemsParser, XMLParser, TextXMLParser)
    #: Octets of XML, which takes ten times as many in memory.
    max_body = 4 << 20


class SubmitTransfer(ItemsView):
    @description.operation("Submit a transfer", body="transfer", answer="transfer_result", status=202)
    def post(self, request: Request) -> Response:
        document = submission_documents.TRANSFER.open(request.data)
        asked = transfer_request(document, document.identifier("submission_id"))
        unknown = unknown_fields_of_transfer(document)
        return accepted(request, "transfer", *submit_transfer(self.user, asked), unknown)


class CheckTransfer(ItemsView):
    @description.operation("Check a transfer without submitting it", body="transfer", answer="submission_check")
    def post(self, request: Request) -> Response:
        document = submission_documents.TRANSFER.open(request.data)
        asked = transfer_request(document, uuid.UUID(int=0))
        check_transfer(self.user, asked)
        return _possible(request, "transfer", len(asked.items), unknown_fields_of_transfer(document))


class CheckDelete(ItemsView):
    @description.operation("Check a delete without submitting it", body="delete", answer="submission_check")
    def post(self, request: Request) -> Response:
        document = submission_documents.DELETE.open(request.data)
        asked = _delete_request(document)
        check_delete(self.user, asked)
        return _possible(request, "delete", len(asked.paths), unknown_fields_of_delete(document))


class SubmitDelete(ItemsView):
    @description.operation("Submit a delete", body="delete", answer="delete_result", status=202)
    def post(self, request: Request) -> Response:
        document = submission_documents.DELETE.open(request.data)
        asked = _delete_request(document)
        unknown = unknown_fields_of_delete(document)
        return accepted(request, "delete", *submit_delete(self.user, asked), unknown)


def _delete_request(document: Document) -> DeleteRequest:
    given = submission_documents.DELETE.values(document)
    return DeleteRequest(
        submission_id=given["submission_id"],
        endpoint=given["endpoint"],
        paths=[
            submission_documents.DELETE_ITEM.values(one)["path"] for one in document.documents("DATA", "delete_item")
        ],
        label=given["label"],
        deadline=given["deadline"],
        options=options.given(options.DELETE, document.fields),
    )


def transfer_request(document: Document, submission_id: uuid.UUID) -> TransferRequest:
    """The transfer that a document asks for. Raises BadRequest."""
    given = submission_documents.TRANSFER_OF_TIMER.values(document)
    return TransferRequest(
        submission_id=submission_id,
        source_endpoint=given["source_endpoint"],
        destination_endpoint=given["destination_endpoint"],
        items=[_transfer_item(one) for one in document.documents("DATA", "transfer_item", SYMLINK)],
        label=given["label"],
        deadline=document.moment("deadline"),
        options=options.given(options.TRANSFER, document.fields),
    )


def _transfer_item(document: Document) -> TransferItem:
    if document.text("DATA_TYPE") == SYMLINK:
        return TransferItem(**submission_documents.SYMLINK_ITEM.values(document), symlink=True)
    return TransferItem(**submission_documents.TRANSFER_ITEM.values(document))


def accepted(request: Request, what: str, task: Task, made: bool, unknown: str | None = None) -> Response:
    """The answer to a request that makes a task, as `submission_documents` has it. unknown: see `_sentence`."""
    overlap = overlaps.warning(cast(User, request.user), task) if made else None
    warning = " ".join(filter(None, (unknown, overlap))) or None
    body = submission_documents.accepted(what, task, made=made, warning=warning)
    return Response({**body, "request_id": request_id(request), "resource": resource(request)}, status=202)


def _possible(request: Request, what: str, items: int, unknown: str | None) -> Response:
    """The answer of a check. Credentials and the number of tasks are checked when the request is submitted."""
    more: dict[str, Any] = {"DATA_TYPE": "submission_check", "items": items, "warning": unknown}
    return result(request, "Possible", f"The {what} could be submitted", **more)


#: Names in a warning, and characters of each.
MOST, LENGTH = 5, 64

_TRANSFER = frozenset({"DATA_TYPE", *options.TRANSFER, *(one.name for one in submission_documents.TRANSFER.fields)})
_DELETE = frozenset({"DATA_TYPE", *options.DELETE, *(one.name for one in submission_documents.DELETE.fields)})
_TRANSFER_ITEM = frozenset({"DATA_TYPE", *(one.name for one in submission_documents.TRANSFER_ITEM.fields)})
_DELETE_ITEM = frozenset({"DATA_TYPE", *(one.name for one in submission_documents.DELETE_ITEM.fields)})


def unknown_fields_of_transfer(document: Document) -> str | None:
    """A sentence for the user; None: all fields are known."""
    return _sentence(document, _TRANSFER, _TRANSFER_ITEM)


def unknown_fields_of_delete(document: Document) -> str | None:
    """The same of a delete."""
    return _sentence(document, _DELETE, _DELETE_ITEM)


def _sentence(document: Document, known: frozenset[str], of_items: frozenset[str]) -> str | None:
    fields, items = _unknown([document.fields], known), document.fields.get("DATA")
    in_items = _unknown(items if isinstance(items, list) else [], of_items)
    words = [_described(name, "", known, of_items) for name in fields]
    words += [_described(name, "DATA: ", of_items, known) for name in in_items]
    if not words:
        return None
    more = f", and {len(words) - MOST} more" if len(words) > MOST else ""
    return f"Unknown fields were ignored: {', '.join(words[:MOST])}{more}."


def _unknown(elements: Iterable[object], known: frozenset[str]) -> list[str]:
    """The names of the unknown fields of these objects, in their order, each once."""
    found: dict[str, None] = {}
    for one in elements:
        if isinstance(one, Mapping) and not one.keys() <= known:
            found |= dict.fromkeys(name for name in one if name not in known)
    return list(found)


def _described(name: str, place: str, known: frozenset[str], elsewhere: frozenset[str]) -> str:
    """The name, with the field that was probably meant. elsewhere: fields of the items, or of the document."""
    shown = f"{place}{name[:LENGTH]!r}"
    if name in elsewhere:
        return f"{shown} ({'a field of the whole task' if place else 'a field of each item in DATA'})"
    near = difflib.get_close_matches(name[:LENGTH].lower(), sorted(known), 1)
    return f"{shown} (did you mean {near[0]}?)" if near else shown
