"""Submit transfers and deletes."""

from __future__ import annotations

import uuid
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

from . import documents, unknown_fields

SYMLINK = documents.SYMLINK_ITEM.name


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
        document = documents.TRANSFER.open(request.data)
        asked = transfer_request(document, document.identifier("submission_id"))
        unknown = unknown_fields.of_transfer(document)
        return accepted(request, "transfer", *submit_transfer(self.user, asked), unknown)


class CheckTransfer(ItemsView):
    @description.operation("Check a transfer without submitting it", body="transfer", answer="submission_check")
    def post(self, request: Request) -> Response:
        document = documents.TRANSFER.open(request.data)
        asked = transfer_request(document, uuid.UUID(int=0))
        check_transfer(self.user, asked)
        return _possible(request, "transfer", len(asked.items), unknown_fields.of_transfer(document))


class CheckDelete(ItemsView):
    @description.operation("Check a delete without submitting it", body="delete", answer="submission_check")
    def post(self, request: Request) -> Response:
        document = documents.DELETE.open(request.data)
        asked = _delete_request(document)
        check_delete(self.user, asked)
        return _possible(request, "delete", len(asked.paths), unknown_fields.of_delete(document))


class SubmitDelete(ItemsView):
    @description.operation("Submit a delete", body="delete", answer="delete_result", status=202)
    def post(self, request: Request) -> Response:
        document = documents.DELETE.open(request.data)
        asked = _delete_request(document)
        unknown = unknown_fields.of_delete(document)
        return accepted(request, "delete", *submit_delete(self.user, asked), unknown)


def _delete_request(document: Document) -> DeleteRequest:
    given = documents.DELETE.values(document)
    return DeleteRequest(
        submission_id=given["submission_id"],
        endpoint=given["endpoint"],
        paths=[documents.DELETE_ITEM.values(one)["path"] for one in document.documents("DATA", "delete_item")],
        label=given["label"],
        deadline=given["deadline"],
        options=options.given(options.DELETE, document.fields),
    )


def transfer_request(document: Document, submission_id: uuid.UUID) -> TransferRequest:
    """The transfer that a document asks for. Raises BadRequest."""
    given = documents.TRANSFER_OF_TIMER.values(document)
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
        return TransferItem(**documents.SYMLINK_ITEM.values(document), symlink=True)
    return TransferItem(**documents.TRANSFER_ITEM.values(document))


def accepted(request: Request, what: str, task: Task, made: bool, unknown: str | None = None) -> Response:
    """The answer to a request that makes a task, as `documents.accepted` has it. unknown: see `unknown_fields`."""
    overlap = overlaps.warning(cast(User, request.user), task) if made else None
    warning = " ".join(filter(None, (unknown, overlap))) or None
    body = documents.accepted(what, task, made=made, warning=warning)
    return Response({**body, "request_id": request_id(request), "resource": resource(request)}, status=202)


def _possible(request: Request, what: str, items: int, unknown: str | None) -> Response:
    """The answer of a check. Credentials and the number of tasks are checked when the request is submitted."""
    more: dict[str, Any] = {"DATA_TYPE": "submission_check", "items": items, "warning": unknown}
    return result(request, "Possible", f"The {what} could be submitted", **more)
