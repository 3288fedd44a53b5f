"""The documents of tasks, of their events and of their files. A field of the task document is added here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LISTED
from transferapi.rest.openapi.document_types import (
    Always,
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    each,
    part,
)
from transferapi.tasks import standstill
from transferapi.tasks.forecast.model import Forecast
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.states import FileKind, Phase, Status, TaskType

from .endpoint_documents import shown_name
from .submission_documents import DEADLINE, FILTER_RULE, LABEL

#: The longest forecast that is given as a date: a century, in seconds.
LONGEST = 100 * 365 * 86400.0


def _of_destination(get: Callable[[Endpoint], object]) -> Callable[[Task], object]:
    """The value for the destination; None for a delete, which has no destination."""
    return lambda row: get(target) if (target := row.destination) else None


def _option(name: str) -> Field[Task]:
    return Field(name, t.FLAG, lambda row: row.options.get(name) is True)


#: As text: a list compares them some thousand times.
_DONE, _PAUSED, _QUEUED, _RUNNING = (one.value for one in (Phase.DONE, Phase.PAUSED, Phase.QUEUED, Phase.RUNNING))
_TRANSFER = TaskType.TRANSFER.value


def _canceled(row: Task) -> bool:
    """Whether the task was canceled. One that a manager has canceled may still succeed or fail before that."""
    return row.fatal_error_code == "CANCELED"


def _key(row: Task) -> str:
    """The oldest clients sort tasks by this key, and continue a list from it."""
    if row.completion_time is None:
        return f"active,{t.wire_time(row.request_time)}"
    return f"complete,{t.wire_time(row.completion_time)}"


def _left(row: Task) -> int:
    """The subtasks that have not ended. Subtasks are the files and, as clients expect it, one more for the scan."""
    return row.files_left + (row.items_total != row.items_scanned)


def _succeeded(row: Task) -> int:
    return row.files_transferred + row.files_skipped - row.skipped_errors + (row.items_total == row.items_scanned)


def _failed(row: Task) -> int:
    ended_otherwise = row.phase != _DONE or row.fatal_error_code in ("EXPIRED", "CANCELED")
    return row.files_failed + (0 if ended_otherwise else _left(row))


def rate(row: Task) -> int:
    """Bytes a second from the request to the end, or to the last progress."""
    end = row.completion_time or row.last_progress_at
    seconds = (end - row.request_time).total_seconds() if end else 0.0
    return int(row.bytes_transferred / seconds) if seconds > 0 else 0


def _nice_status(row: Task) -> str | None:
    if row.phase == _DONE:
        return None
    return row.nice_status or ("Queued" if row.phase == _QUEUED else "OK")


def _nice_words(row: Task) -> str | None:
    code = _nice_status(row)
    return code.replace("_", " ").lower() if code and code.isupper() and code != "OK" else code


def _fatal_error(row: Task) -> dict[str, Any] | None:
    if row.fatal_error_code is None:
        return None
    return {"code": row.fatal_error_code, "description": row.fatal_error_description}


def seconds(found: Forecast) -> dict[str, float]:
    return {"low": round(found.low, 3), "expected": round(found.expected, 3), "high": round(found.high, 3)}


def bytes_per_second(found: Forecast) -> dict[str, int]:
    low, expected, high = found.bytes_per_second
    return {"low": int(low), "expected": int(expected), "high": int(high)}


def _end(found: Forecast) -> datetime | None:
    return datetime.now(UTC) + timedelta(seconds=found.expected) if found.expected < LONGEST else None


RANGE: t.Schema = {
    **t.object_of(t.properties("low expected high", {"type": "number"})),
    "required": ["low", "expected", "high"],
    "description": "one in ten is below low, and one in ten above high",
}
_BASIS = t.about("the data on which the forecast is based", t.TEXT)

#: An extension of ours: the fields of a task that a forecast fills in; null in lists, and where nothing is known.
FORECAST_OF_TASK = part(
    Field[Forecast]("forecast_seconds_left", t.maybe(RANGE), seconds, {"low": 1.0, "expected": 2.5, "high": 6.0}),
    Field(
        "forecast_bytes_per_second",
        t.maybe(RANGE),
        bytes_per_second,
        {"low": 250_000, "expected": 600_000, "high": 1_500_000},
    ),
    Field("forecast_completion_time", t.MAYBE_TIME, _end),
    Field("forecast_basis", t.maybe(_BASIS), "basis", "this task"),
)

#: Before a submission: the endpoints, and the forecast between them.
FORECAST = ResponseDocument[tuple[Endpoint, Endpoint, Forecast]](
    "forecast",
    Field("source_endpoint_id", t.UUID, lambda found: found[0].pk),
    Field("destination_endpoint_id", t.UUID, lambda found: found[1].pk),
    Field("files", t.NUMBER, lambda found: found[2].work.files, 2),
    Field("bytes", t.NUMBER, lambda found: found[2].work.bytes, 1_000_000_000),
    Field("seconds", RANGE, lambda found: seconds(found[2]), {"low": 8.5, "expected": 12.25, "high": 30.0}),
    Field(
        "bytes_per_second",
        RANGE,
        lambda found: bytes_per_second(found[2]),
        {"low": 33_333_333, "expected": 81_632_653, "high": 117_647_058},
    ),
    Field("basis", _BASIS, lambda found: found[2].basis, "3 runs between these endpoints"),
    Field("runs", t.about("how many of them were between these endpoints", t.NUMBER), lambda found: found[2].runs, 3),
)

TASK = ResponseDocument[Task](
    "task",
    Field("task_id", t.UUID, "id"),
    Field("type", t.one_of(*TaskType.values)),
    Field("status", t.about("INACTIVE: a person must act", t.one_of(*Status.values))),
    Field("label", t.MAYBE_TEXT, example="two items"),
    Field("owner_id", t.UUID),
    Field("username", t.TEXT, "owner.username", "alice"),
    Field("request_time", t.TIME),
    Field("completion_time", t.MAYBE_TIME, example=None),
    Field("key", t.TEXT, _key, "active,2026-01-15T12:00:00+00:00"),
    Field("deadline", t.TIME),
    Field("source_endpoint", t.TEXT, lambda row: canonical_name(row.source), "go#ep1"),
    Field("source_endpoint_id", t.UUID, "source_id"),
    Field("source_endpoint_display_name", t.TEXT, lambda row: shown_name(row.source), "Sample endpoint 1"),
    Field("destination_endpoint", t.MAYBE_TEXT, _of_destination(canonical_name), "go#ep2"),
    Field("destination_endpoint_id", t.MAYBE_UUID, "destination_id"),
    Field("destination_endpoint_display_name", t.MAYBE_TEXT, _of_destination(shown_name), "Sample endpoint 2"),
    *each("source_base_path destination_base_path", t.MAYBE_TEXT),
    Field("source_local_user", t.MAYBE_TEXT, Always(None)),
    Field("source_local_user_status", t.MAYBE_TEXT, Always("NO_PERMISSION"), "NO_PERMISSION"),
    Field("destination_local_user", t.MAYBE_TEXT, Always(None)),
    Field(
        "destination_local_user_status",
        t.MAYBE_TEXT,
        lambda row: "NO_PERMISSION" if row.destination_id else None,
        "NO_PERMISSION",
    ),
    Field("sync_level", t.MAYBE_NUMBER, lambda row: row.options.get("sync_level"), 3),
    _option("encrypt_data"),
    _option("verify_checksum"),
    _option("delete_destination_extra"),
    #: An extension of ours.
    Field(
        "confirm_deletion_above",
        t.about(
            "percent of the destination above which a mirror waits for your answer; null: it never does", t.MAYBE_NUMBER
        ),
        lambda row: row.options.get("confirm_deletion_above"),
        50,
    ),
    #: Extensions of ours.
    Field(
        "bandwidth_limit",
        t.about("octets a second, of the submission; null: none", t.MAYBE_NUMBER),
        lambda row: row.options.get("bandwidth_limit"),
        5_000_000,
    ),
    Field(
        "present_bandwidth_limit",
        t.about("octets a second that it may move now; null: nothing limits it, or it does not run", t.MAYBE_NUMBER),
        lambda row: row.present_bandwidth_limit if row.phase == _RUNNING else None,
        2_500_000,
    ),
    Field(
        "priority",
        t.about("background: gives way to the other transfers of its endpoints; null: not a transfer", t.MAYBE_TEXT),
        lambda row: row.options.get("priority", "normal") if row.type == _TRANSFER else None,
        "normal",
    ),
    _option("preserve_timestamp"),
    _option("skip_source_errors"),
    _option("fail_on_quota_errors"),
    Field(
        "recursive_symlinks",
        t.MAYBE_TEXT,
        lambda row: row.options.get("recursive_symlinks", "ignore") if row.type == _TRANSFER else None,
        "ignore",
    ),
    Field(
        "filter_rules",
        t.list_of({"type": "object"}, nullable=True),
        lambda row: row.options.get("filter_rules"),
        [FILTER_RULE.example],
    ),
    *each("faults files directories symlinks files_skipped files_transferred", t.NUMBER),
    Field("subtasks_total", t.NUMBER, lambda row: row.files + 1),
    Field("subtasks_pending", t.NUMBER, lambda row: 0 if row.phase == _DONE else _left(row)),
    Field("subtasks_retrying", t.NUMBER, Always(0)),
    Field("subtasks_succeeded", t.NUMBER, _succeeded),
    Field("subtasks_expired", t.NUMBER, lambda row: _left(row) if row.fatal_error_code == "EXPIRED" else 0),
    Field("subtasks_canceled", t.NUMBER, lambda row: _left(row) if row.fatal_error_code == "CANCELED" else 0),
    Field("subtasks_failed", t.NUMBER, _failed),
    Field("subtasks_skipped_errors", t.NUMBER, "skipped_errors"),
    *each("bytes_transferred bytes_checksummed", t.NUMBER, example=1_500_000),
    Field("effective_bytes_per_second", t.NUMBER, rate, 750_000),
    *FORECAST_OF_TASK.absent(),
    Field("command", t.TEXT, lambda row: row.command or "API 0.10", "API 0.10"),
    Field("history_deleted", t.FLAG),
    Field("nice_status", t.MAYBE_TEXT, _nice_status, "CONNECT_FAILED"),
    Field(
        "nice_status_details",
        t.MAYBE_TEXT,
        lambda row: None if row.phase == _DONE else row.nice_status_details,
        "connection refused",
    ),
    Field("nice_status_short_description", t.MAYBE_TEXT, _nice_words, "connect failed"),
    Field(
        "nice_status_expires_in",
        t.about("seconds to the next try, -1: no such time is known", t.MAYBE_NUMBER),
        lambda row: None if row.phase == _DONE else standstill.seconds_to_next_try(row, datetime.now(UTC)),
        -1,
    ),
    Field(
        "is_ok",
        t.about("null: the task is done", t.MAYBE_FLAG),
        lambda row: None if row.phase == _DONE else row.nice_status is None,
        False,
    ),
    Field("is_paused", t.FLAG, lambda row: row.phase == _PAUSED),
    #: An extension of ours.
    Field(
        "data_protection",
        t.about(
            "the weakest that data channels had: clear, authenticated or encrypted; null: none were opened",
            t.MAYBE_TEXT,
        ),
        example="authenticated",
    ),
    #: An extension of ours.
    Field(
        "data_way",
        t.about(
            "direct, relayed or streamed, where the data do not simply go from server to server; else null",
            t.MAYBE_TEXT,
        ),
    ),
    Field("fatal_error", t.maybe(t.object_of({"code": t.TEXT, "description": t.MAYBE_TEXT})), _fatal_error),
    Field("canceled_by_admin", t.MAYBE_TEXT, lambda row: row.canceled_by_admin if _canceled(row) else None),
    Field(
        "canceled_by_admin_message", t.MAYBE_TEXT, lambda row: row.canceled_by_admin_message if _canceled(row) else None
    ),
)
TASK_LIST = ListDocument("task_list", TASK, *LISTED, Field("total", t.NUMBER, example=1))
TASK_CHANGE = RequestDocument(
    "task", "", LABEL, DEADLINE, example={"label": "a better label", "deadline": "2090-01-31T23:59:59+00:00"}
)


def task(row: Task, forecast: Forecast | None = None) -> dict[str, Any]:
    """forecast: of what is left."""
    document = TASK.document(row)
    return document if forecast is None else document | FORECAST_OF_TASK.values(forecast)


# ---- history

EVENT = ResponseDocument[Event](
    "event",
    Field("code", t.TEXT, example="CONNECT_FAILED"),
    Field("is_error", t.FLAG, example=True),
    Field("description", t.TEXT, example="The server did not answer."),
    Field("details", t.TEXT, example="connection refused"),
    Field("time", t.TIME),
)
EVENT_LIST = ListDocument("event_list", EVENT, *LISTED, Field("total", t.NUMBER, example=1))

_SOURCE = Field[File]("source_path", t.PATH, example="/share/godata/file1.txt")
_DESTINATION = Field[File]("destination_path", t.maybe(t.PATH), example="/copy/file1.txt")
_HIDDEN = t.about("null: the side of an endpoint that you do not manage", t.MAYBE_TEXT)
#: The paths as the manager of the source sees them.
_MANAGED_PATHS = (
    Field[File]("source_path", _HIDDEN, example="/share/godata/file1.txt"),
    Field[File]("destination_path", _HIDDEN),
)
_MARKERS = each("marker next_marker", t.about("null: nothing comes after it", t.MAYBE_NUMBER))

_MOVED = (
    Field[File]("size", t.NUMBER, example=5),
    Field[File]("checksum", t.MAYBE_TEXT, example="5a105e8b9d40e1329780d62ea2265d8a"),
    Field[File]("checksum_algorithm", t.MAYBE_TEXT, example="MD5"),
)
_SKIPPED = (
    Field[File]("error_code", t.MAYBE_TEXT, example="PERMISSION_DENIED"),
    Field[File]("error_details", t.MAYBE_TEXT, example="550 Permission denied"),
    Field[File]("error_time", t.MAYBE_TIME),
    Field[File]("checksum_algorithm", t.MAYBE_TEXT),
    Field[File]("external_checksum", t.MAYBE_TEXT, "checksum"),
    Field[File]("is_directory", t.FLAG, lambda row: row.kind == FileKind.DIRECTORY),
    Field[File]("is_symlink", t.FLAG, lambda row: row.kind == FileKind.SYMLINK),
    Field[File]("is_delete_destination_extra", t.FLAG, Always(False)),
)
SUCCESSFUL_TRANSFER = ResponseDocument[File]("successful_transfer", _SOURCE, _DESTINATION, *_MOVED)
SKIPPED_ERROR = ResponseDocument[File]("skipped_error", _SOURCE, _DESTINATION, *_SKIPPED)
SUCCESSFUL_TRANSFERS = ListDocument("successful_transfers", SUCCESSFUL_TRANSFER, *_MARKERS)
SKIPPED_ERRORS = ListDocument("skipped_errors", SKIPPED_ERROR, *_MARKERS)
MANAGED_SUCCESSFUL_TRANSFER = ResponseDocument[File](
    "managed_successful_transfer", *_MANAGED_PATHS, *_MOVED, data_type="successful_transfer"
)
MANAGED_SKIPPED_ERROR = ResponseDocument[File](
    "managed_skipped_error", *_MANAGED_PATHS, *_SKIPPED, data_type="skipped_error"
)
MANAGED_SUCCESSFUL_TRANSFERS = ListDocument(
    "managed_successful_transfers", MANAGED_SUCCESSFUL_TRANSFER, *_MARKERS, data_type="successful_transfers"
)
MANAGED_SKIPPED_ERRORS = ListDocument(
    "managed_skipped_errors", MANAGED_SKIPPED_ERROR, *_MARKERS, data_type="skipped_errors"
)
