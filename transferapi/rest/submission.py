"""Submit transfers and deletes."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from transferapi.tasks.models import Task
from transferapi.tasks.submission import DeleteRequest, TransferItem, TransferRequest, submit_delete, submit_transfer

from . import documents, schemas
from .base import LargeBodies, View
from .errors import request_id, resource
from .formats import TextXMLParser, XMLParser
from .parsing import Document, ItemsParser

_SYMLINK_ITEM = "transfer_symlink_item"


class SubmissionId(View):
    @schemas.operation("Get an id that makes a submission happen exactly once", answer="submission_id")
    def get(self, request: Request) -> Response:
        return Response({"DATA_TYPE": "submission_id", "value": str(uuid.uuid4())})


class ItemsView(LargeBodies):
    """Takes long lists of items."""

    parser_classes = (ItemsParser, XMLParser, TextXMLParser)
    #: Octets of XML, which takes ten times as many in memory.
    max_body = 4 << 20


class Transfer(ItemsView):
    @schemas.operation("Submit a transfer", body="transfer", answer="transfer_result", status=202)
    def post(self, request: Request) -> Response:
        document = Document(request.data, "transfer")
        asked = transfer_request(document, document.identifier("submission_id"))
        return _accepted(request, "transfer_result", "transfer", *submit_transfer(self.user, asked))


class Delete(ItemsView):
    @schemas.operation("Submit a delete", body="delete", answer="delete_result", status=202)
    def post(self, request: Request) -> Response:
        document = Document(request.data, "delete")
        asked = DeleteRequest(
            submission_id=document.identifier("submission_id"),
            endpoint=document.required_text("endpoint"),
            paths=[one.required_text("path") for one in document.documents("DATA", "delete_item")],
            label=document.text("label"),
            deadline=document.moment("deadline"),
            options=document.fields,
        )
        return _accepted(request, "delete_result", "delete", *submit_delete(self.user, asked))


def transfer_request(document: Document, submission_id: uuid.UUID) -> TransferRequest:
    """What a transfer document asks for."""
    return TransferRequest(
        submission_id=submission_id,
        source_endpoint=document.required_text("source_endpoint"),
        destination_endpoint=document.required_text("destination_endpoint"),
        items=[_transfer_item(one) for one in document.documents("DATA", "transfer_item", _SYMLINK_ITEM)],
        label=document.text("label"),
        deadline=document.moment("deadline"),
        options=document.fields,
    )


def _transfer_item(document: Document) -> TransferItem:
    source, destination = document.required_text("source_path"), document.required_text("destination_path")
    if document.text("DATA_TYPE") == _SYMLINK_ITEM:
        return TransferItem(source, destination, symlink=True)
    return TransferItem(
        source,
        destination,
        document.flag("recursive"),
        document.text("external_checksum"),
        document.text("checksum_algorithm"),
    )


def _accepted(request: Request, data_type: str, what: str, task: Task, made: bool) -> Response:
    code = "Accepted" if made else "Duplicate"
    message = f"The {what} has been accepted and a task has been created and queued for execution"
    body = {
        "DATA_TYPE": data_type,
        "code": code,
        "message": message if made else f"This submission_id was used before; it is the {what} of this task",
        "task_id": str(task.pk),
        "submission_id": str(task.submission_id),
        "request_id": request_id(request),
        "resource": resource(request),
        "task_link": documents.task_link(task),
    }
    return Response(body, status=202)
