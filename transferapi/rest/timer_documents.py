"""The documents of timers. They have no DATA_TYPE."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from transferapi.tasks.states import Phase
from transferapi.timers import schedule, services
from transferapi.timers.models import Timer
from transferapi.timers.schedule import MAX_INTERVAL, MAX_ITERATIONS, MIN_INTERVAL

from .openapi import types as t
from .openapi.document_types import Always, Field, RequestDocument, ResponseDocument, part, wrapped
from .transfer.submission_documents import TRANSFER_OF_TIMER

#: Older clients see by it that the timer submits a transfer. Nobody calls it.
_TRANSFER = "https://actions.automate.globus.org/transfer/transfer/run"
_ITERATIONS = {"type": "integer", "minimum": 1, "maximum": MAX_ITERATIONS}
_INTERVAL = {"type": "integer", "minimum": MIN_INTERVAL, "maximum": MAX_INTERVAL}
_ERROR = t.object_of(t.properties("code message", t.TEXT))

# ---- what the service answers

_ONCE = t.object_of({"type": t.one_of("once"), "datetime": t.TIME})
_END_TIME = t.object_of({"condition": t.one_of("time"), "datetime": t.TIME})
_END_RUNS = t.object_of({"condition": t.one_of("iterations"), "iterations": t.NUMBER, "count": t.NUMBER})
_RECURRING = t.object_of(
    {
        "type": t.one_of("recurring"),
        "start": t.TIME,
        "interval_seconds": t.NUMBER,
        "end": {"oneOf": [_END_TIME, _END_RUNS], "nullable": True},
    }
)
_INACTIVE = t.object_of({"cause": t.one_of("user", "refused", "held"), "detail": t.maybe(_ERROR)})
_ACTIVITY = t.object_of(
    {"code": t.one_of("awaiting_next_run", "run_in_progress", "paused"), "start_timestamp": t.MAYBE_TIME}
)


def _activity(row: Timer) -> dict[str, Any] | None:
    """The next event of the timer, by the codes that the command line knows."""
    if row.status == "ended":
        return None
    if row.status == "inactive":
        return {"code": "paused", "start_timestamp": None}
    if row.last_task is not None and row.last_task.phase != Phase.DONE:
        return {"code": "run_in_progress", "start_timestamp": t.wire_time(row.last_ran_at)}
    return {"code": "awaiting_next_run", "start_timestamp": None}


def _start(row: Timer) -> datetime:
    """A schedule of a newer version, which is shown as it is, has no other time that this one knows."""
    plan = schedule.read_if_known(row.schedule)
    return row.submitted_at if plan is None else plan.start


def _interval(row: Timer) -> int | None:
    plan = schedule.read_if_known(row.schedule)
    return None if plan is None else plan.interval


def _stop_after(row: Timer) -> dict[str, Any]:
    plan = schedule.read_if_known(row.schedule)
    if plan is None:
        return {"date": None, "n_runs": None}
    return {"date": t.wire_time(plan.end), "n_runs": 1 if plan.interval is None else plan.iterations}


_START = "2026-01-15T02:00:00+00:00"
#: A timer, with the fields of both versions of the API: the command line reads the older ones.
TIMER = ResponseDocument[Timer](
    "timer",
    Field("job_id", t.UUID, "pk"),
    Field("name", t.TEXT, example="every night"),
    Field("timer_type", t.one_of("transfer"), Always("transfer")),
    Field(
        "status",
        t.about(
            "new: has not run; loaded: has run, and will; inactive: a person must act; ended: never again",
            t.one_of("new", "loaded", "inactive", "ended"),
        ),
        example="loaded",
    ),
    Field("inactive_reason", t.about("paused by its owner, refused (by what), or held", t.maybe(_INACTIVE))),
    Field(
        "activity",
        t.about("null: the timer has ended", t.maybe(_ACTIVITY)),
        _activity,
        {"code": "awaiting_next_run", "start_timestamp": None},
    ),
    Field(
        "schedule",
        {"oneOf": [_ONCE, _RECURRING]},
        example={
            "type": "recurring",
            "start": _START,
            "interval_seconds": 86400,
            "end": {"condition": "iterations", "iterations": 30, "count": 30},
        },
    ),
    Field("submitted_at", t.TIME),
    Field("next_run", t.MAYBE_TIME),
    Field("last_ran_at", t.MAYBE_TIME),
    Field("number_of_runs", t.NUMBER, example=1),
    Field("number_of_errors", t.NUMBER),
    Field("last_task_id", t.about("the task that the last run submitted", t.MAYBE_UUID)),
    Field("last_error", t.about("the error that refused the last run", t.maybe(_ERROR))),
    Field(
        "body",
        t.about("the transfer document; null in lists", {"type": "object", "nullable": True}),
        services.body_of,
        TRANSFER_OF_TIMER.example,
    ),
    # ---- by their older names
    Field("callback_url", t.about("always that of a transfer", t.TEXT), Always(_TRANSFER), _TRANSFER),
    Field("callback_body", {"type": "object", "nullable": True}, Always(None)),
    Field("scope", t.MAYBE_TEXT, Always(None)),
    Field("start", t.TIME, _start),
    Field("interval", t.MAYBE_NUMBER, _interval, 86400),
    Field(
        "stop_after",
        t.object_of({"date": t.MAYBE_TIME, "n_runs": t.MAYBE_NUMBER}),
        _stop_after,
        {"date": None, "n_runs": 30},
    ),
    Field("n_runs", t.NUMBER, "number_of_runs", 1),
    Field("n_errors", t.NUMBER, "number_of_errors"),
    data_type=None,
)
#: Lists leave out the transfers.
TIMER_IN_LIST = part(
    *(Field[Timer]("body", one.schema, Always(None)) if one.name == "body" else one for one in TIMER.fields)
)
TIMER_CREATED = wrapped("timer_created", "timer", TIMER)
TIMER_LIST = wrapped("timer_list", "jobs", TIMER, many=True)
TIMER_MESSAGE = ResponseDocument[None](
    "timer_message",
    Field("message", t.TEXT, example="Successfully paused job 2f4d7c1a-6b3e-4d5f-8a90-1c2e3f4a5b6c."),
    data_type=None,
)

# ---- what clients send

_NAME = Field[Any]("name", t.MAYBE_TEXT)
_SCHEDULE: t.Schema = t.object_with(
    "type",
    {
        "type": t.one_of("once", "recurring"),
        "datetime": t.about("for `once`: the time of the run; absent: now", t.MAYBE_TEXT),
        "interval_seconds": t.about("for `recurring`: seconds between two runs", t.maybe(_INTERVAL)),
        "start": t.about("for `recurring`: the time of the first run; absent: now", t.MAYBE_TEXT),
        "end": t.maybe(
            t.object_with(
                "",
                {
                    "condition": t.maybe(t.one_of("time", "iterations")),
                    "datetime": t.MAYBE_TEXT,
                    "iterations": t.about("the number of runs; `count` means the same", t.maybe(_ITERATIONS)),
                    "count": t.maybe(_ITERATIONS),
                },
            )
        ),
    },
)
_OLDER = (
    Field[Any]("start", t.MAYBE_TEXT),
    Field[Any]("interval", t.about("seconds; null: once", {"type": "number", "nullable": True})),
    Field[Any](
        "stop_after",
        {
            "oneOf": [t.TEXT, t.object_with("", {"date": t.MAYBE_TEXT, "n_runs": t.maybe(_ITERATIONS)})],
            "nullable": True,
        },
    ),
    Field[Any]("stop_after_n", t.maybe(_ITERATIONS)),
)
TIMER_REQUEST = RequestDocument(
    "timer",
    "timer",
    Field(
        "timer",
        t.object_with(
            "schedule body",
            {
                "timer_type": t.maybe(t.one_of("transfer")),
                "name": t.MAYBE_TEXT,
                "schedule": _SCHEDULE,
                "body": TRANSFER_OF_TIMER.schema,
            },
        ),
        example={
            "timer_type": "transfer",
            "name": "every night",
            "schedule": {
                "type": "recurring",
                "start": "2036-01-15T02:00:00+00:00",
                "interval_seconds": 86400,
                "end": {"condition": "iterations", "iterations": 30},
            },
            "body": TRANSFER_OF_TIMER.example,
        },
    ),
    data_type=None,
)
TIMER_JOB = RequestDocument(
    "timer_job",
    "callback_url callback_body",
    _NAME,
    Field("callback_url", t.TEXT, example=_TRANSFER),
    Field(
        "callback_body",
        {"type": "object"},
        example={
            "body": {
                "source_endpoint_id": "go#ep1",
                "destination_endpoint_id": "go#ep2",
                "transfer_items": [{"source_path": "/data/", "destination_path": "/copy/", "recursive": True}],
            }
        },
    ),
    *_OLDER,
    data_type=None,
    example={"name": "every ten days", "start": "2036-04-01T19:30:00+00:00", "interval": 864_000, "stop_after_n": 5},
)
TIMER_CHANGE = RequestDocument(
    "timer_change",
    "",
    _NAME,
    Field("schedule", t.maybe(_SCHEDULE)),
    *_OLDER,
    data_type=None,
    example={
        "name": "every week",
        "schedule": {"type": "recurring", "start": "2036-01-15T02:00:00+00:00", "interval_seconds": 604_800},
    },
)
