"""The documents of submissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transferapi.rest.http.parsing import Document
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import ActionDocument
from transferapi.rest.openapi.document_types import (
    Always,
    Field,
    RequestDocument,
    ResponseDocument,
    any_list,
    each,
    optional,
    unchecked,
)
from transferapi.tasks import options
from transferapi.tasks.models import Task
from transferapi.tasks.options import Flag, Number, OneOf, TaskOption

from . import VERSION

_FILES = {"source_path": "/share/godata/file1.txt", "destination_path": "/file1.txt"}
_FOLDERS = {"source_path": "/share/", "destination_path": "/copy/", "recursive": True}
_TASK = "3f4c9c1e-8a5b-4f0e-9d5c-2f1d7c0b6a11"

# ---- what clients submit


SUBMISSION = Field[Any](
    "submission_id",
    t.about("from GET /submission_id: sent again, it gives the same task", t.UUID),
    example="6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d3e",
)
LABEL = Field[Any]("label", t.about("one line of at most 128 characters", t.MAYBE_TEXT))
DEADLINE = Field[Any](
    "deadline",
    t.about("2030-01-31, 2030-01-31 23:59:59 or ISO 8601; UTC when no zone is said", t.MAYBE_TEXT),
    read=Document.moment,
)
FILTER_RULE = RequestDocument(
    "filter_rule",
    "method name",
    Field("method", t.one_of("include", "exclude"), example="exclude"),
    Field("name", t.about("a pattern: * ? [abc] [!abc]", t.TEXT), example="*.tmp"),
    Field("type", t.about("absent: files and folders", t.maybe(t.one_of("file", "dir")))),
    example={"type": "file"},
)


def _schema(one: TaskOption) -> t.Schema:
    kind = one.kind
    if isinstance(kind, Flag):
        return t.FLAG
    if isinstance(kind, Number):
        return {"type": "integer", "minimum": kind.lowest, "maximum": kind.highest}
    if isinstance(kind, OneOf):
        return {**t.one_of(*kind.words), "default": one.default}
    return t.list_of(FILTER_RULE.schema, maxItems=options.MAX_FILTER_RULES)


def _fields(known: Iterable[TaskOption]) -> tuple[Field[Any], ...]:
    """Fields for options, which `transferapi.tasks.options` checks; those that are refused are not documented."""
    shown = (Field[Any](one.name, t.about(one.sentence, _schema(one))) for one in known if not one.refused)
    return unchecked(*optional(*shown))


_TRANSFER_OPTIONS = _fields(options.TRANSFER.values())
TRANSFER_ITEM = RequestDocument(
    "transfer_item",
    "source_path destination_path",
    *each("source_path destination_path", t.PATH),
    Field("recursive", t.about("absent: the service looks whether the source is a folder", t.MAYBE_FLAG)),
    Field(
        "external_checksum",
        t.about("expected checksum of the content, hexadecimal; compared on both sides", t.MAYBE_TEXT),
    ),
    Field(
        "checksum_algorithm",
        t.about("algorithm of `external_checksum`, or of the verification; absent: MD5", t.MAYBE_TEXT),
    ),
    example=_FILES,
)
SYMLINK_ITEM = RequestDocument(
    "transfer_symlink_item",
    "DATA_TYPE source_path destination_path",
    *each("source_path destination_path", t.PATH),
    example=_FILES,
)


def _maybe_id(document: Document, name: str) -> Any:
    return document.identifier(name) if document.text(name) else None


_OWN_ID = Field[Any](
    "submission_id", t.about("as for a transfer; absent: each call makes a task", t.MAYBE_UUID), read=_maybe_id
)
#: The new task that repeats the failed files of another; every field may be absent.
RETRY = RequestDocument(
    "retry",
    "",
    _OWN_ID,
    Field[Any]("label", t.about("absent: the label of the other task", t.MAYBE_TEXT)),
    DEADLINE,
    example={"submission_id": "6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d3f", "label": "second try"},
)
#: The new task that repeats a whole request.
RUN_AGAIN = RequestDocument(
    "run_again",
    "",
    _OWN_ID,
    example={"submission_id": "6e7bd3b4-3d5b-4f0a-8a52-0c5a1b7e7d40"},
)
DELETE_ITEM = RequestDocument("delete_item", "path", Field("path", t.PATH, example="/copy/"))
_ITEMS = Field[Any](
    "DATA",
    t.list_of({"oneOf": [TRANSFER_ITEM.schema, SYMLINK_ITEM.schema]}, minItems=1),
    read=any_list,
    example=[TRANSFER_ITEM.example, {"DATA_TYPE": "transfer_item", **_FOLDERS}],
)
_ENDS = (
    Field[Any]("source_endpoint", t.ENDPOINT, example="go#ep1"),
    Field[Any]("destination_endpoint", t.ENDPOINT, example="go#ep2"),
)
_OF_TRANSFERS = (LABEL, *_ENDS, *_TRANSFER_OPTIONS, _ITEMS)
#: The transfer of a timer: each run adds its submission_id.
TRANSFER_OF_TIMER = RequestDocument(
    "timer_transfer",
    "source_endpoint destination_endpoint DATA",
    *_OF_TRANSFERS,
    data_type="transfer",
    example={"sync_level": 2, "DATA": [{"DATA_TYPE": "transfer_item", **_FOLDERS}]},
)
TRANSFER = RequestDocument(
    "transfer",
    "submission_id source_endpoint destination_endpoint DATA",
    SUBMISSION,
    DEADLINE,
    *_OF_TRANSFERS,
    example={"label": "two items"},
)
DELETE = RequestDocument(
    "delete",
    "submission_id endpoint DATA",
    SUBMISSION,
    LABEL,
    DEADLINE,
    Field("endpoint", t.ENDPOINT, example="go#ep2"),
    *_fields(options.DELETE.values()),
    Field("DATA", t.list_of(DELETE_ITEM.schema, minItems=1), read=any_list, example=[DELETE_ITEM.example]),
    example={"submission_id": "0b0f1c3e-6f7b-4a45-9a3c-8f6ac1d1a0b1", "recursive": True},
)

# ---- what the service answers

SUBMISSION_ID = ResponseDocument[None]("submission_id", Field("value", t.UUID))
LINK = ResponseDocument[Task](
    "link",
    Field("rel", t.TEXT, Always("related"), "related"),
    Field("resource", t.TEXT, Always("task"), "task"),
    Field("title", t.TEXT, Always("related task"), "related task"),
    Field("href", t.TEXT, lambda row: f"/{VERSION}/task/{row.pk}?format=json", f"/{VERSION}/task/{_TASK}?format=json"),
)
_ACCEPTED = (
    Field[None]("task_id", t.UUID, example=_TASK),
    Field[None]("submission_id", t.UUID, example=SUBMISSION.example),
    Field[None]("task_link", LINK.ref, example=LINK.example),
    #: An extension of ours.
    Field[None](
        "warning",
        t.about("unknown fields, and a task that is under way and writes to the same place; null: none", t.MAYBE_TEXT),
    ),
)
_MESSAGE = "The {} has been accepted and a task has been created and queued for execution"


def _accepted(what: str, resource: str) -> ActionDocument:
    message = _MESSAGE.format(what)
    return ActionDocument(f"{what}_result", *_ACCEPTED, code="Accepted", message=message, resource=resource)


TRANSFER_RESULT, DELETE_RESULT = _accepted("transfer", "/transfer"), _accepted("delete", "/delete")
#: An extension of ours: the answer to a request that was checked only.
CHECK_RESULT = ActionDocument(
    "submission_check",
    Field[None]("items", t.NUMBER, example=1),
    Field[None]("warning", t.about("unknown fields, which are ignored; null: none", t.MAYBE_TEXT)),
    code="Possible",
    message="The transfer could be submitted",
    resource="/transfer/check",
)
RETRY_RESULT = _accepted("retry", f"/task/{_TASK}/retry")
RUN_AGAIN_RESULT = _accepted("run_again", f"/task/{_TASK}/run_again")


def accepted(what: str, task: Task, *, made: bool, warning: str | None = None) -> dict[str, Any]:
    """The answer to a submission. what: "transfer" or "delete"; made: not by an earlier request with its id.

    warning: see `unknown_fields` and `items.overlaps`.
    """
    repeated = f"This submission_id was used before; it is the {what} of this task"
    return {
        "DATA_TYPE": f"{what}_result",
        "code": "Accepted" if made else "Duplicate",
        "message": _MESSAGE.format(what) if made else repeated,
        "task_id": str(task.pk),
        "submission_id": str(task.submission_id),
        "task_link": LINK.document(task),
        "warning": warning,
    }
