"""The documents of timers."""

from __future__ import annotations

from typing import Any

from transferapi.timers.schedule import MAX_INTERVAL, MAX_ITERATIONS, MIN_INTERVAL

from .schema import (
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    TEXT,
    TIME,
    UUID,
    Schema,
    about,
    each,
    list_of,
    one_of,
    ref,
    taken,
    told_plain,
)

_ITERATIONS = {"type": "integer", "minimum": 1, "maximum": MAX_ITERATIONS}
_INTERVAL = {"type": "integer", "minimum": MIN_INTERVAL, "maximum": MAX_INTERVAL}
_ERROR = told_plain(each("code message", TEXT))


def _maybe(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


_ONCE = told_plain({"type": one_of("once"), "datetime": TIME})
_END_TIME = told_plain({"condition": one_of("time"), "datetime": TIME})
_END_RUNS = told_plain({"condition": one_of("iterations"), "iterations": NUMBER, "count": NUMBER})
_RECURRING = told_plain(
    {
        "type": one_of("recurring"),
        "start": TIME,
        "interval_seconds": NUMBER,
        "end": {"oneOf": [_END_TIME, _END_RUNS], "nullable": True},
    }
)
_INACTIVE = told_plain({"cause": one_of("user", "refused"), "detail": _maybe(_ERROR)})
_ACTIVITY = told_plain(
    {"code": one_of("awaiting_next_run", "run_in_progress", "paused"), "start_timestamp": MAYBE_TIME}
)

ANSWERS_TIMERS: dict[str, Schema] = {
    "timer": told_plain(
        {
            "job_id": UUID,
            "name": TEXT,
            "timer_type": one_of("transfer"),
            "status": about(
                "new: has not run; loaded: has run, and will; inactive: a person must act; ended: never again",
                one_of("new", "loaded", "inactive", "ended"),
            ),
            "inactive_reason": about("paused by its owner, or refused: by what", _maybe(_INACTIVE)),
            "activity": about("null: it has ended", _maybe(_ACTIVITY)),
            "schedule": {"oneOf": [_ONCE, _RECURRING]},
            "submitted_at": TIME,
            **each("next_run last_ran_at", MAYBE_TIME),
            **each("number_of_runs number_of_errors", NUMBER),
            "last_task_id": about("what the last run submitted", MAYBE_UUID),
            "last_error": about("what refused the last run", _maybe(_ERROR)),
            "body": about("the transfer document; null in lists", {"type": "object", "nullable": True}),
            "callback_url": about("says that it is a transfer", TEXT),
            "callback_body": {"type": "object", "nullable": True},
            "scope": MAYBE_TEXT,
            "start": TIME,
            "interval": MAYBE_NUMBER,
            "stop_after": told_plain({"date": MAYBE_TIME, "n_runs": MAYBE_NUMBER}),
            **each("n_runs n_errors", NUMBER),
        }
    ),
    "timer_created": told_plain({"timer": ref("timer")}),
    "timer_list": told_plain({"jobs": list_of(ref("timer"))}),
    "timer_message": told_plain({"message": TEXT}),
}

_SCHEDULE: Schema = taken(
    "type",
    {
        "type": one_of("once", "recurring"),
        "datetime": about("of once; now when it is not given", MAYBE_TEXT),
        "interval_seconds": about("of recurring", _maybe(_INTERVAL)),
        "start": about("of recurring; now when it is not given", MAYBE_TEXT),
        "end": _maybe(
            taken(
                "",
                {
                    "condition": _maybe(one_of("time", "iterations")),
                    "datetime": MAYBE_TEXT,
                    "iterations": about("or `count`", _maybe(_ITERATIONS)),
                    "count": _maybe(_ITERATIONS),
                },
            )
        ),
    },
)
_OLDER: dict[str, Schema] = {
    "start": MAYBE_TEXT,
    "interval": about("seconds; null: once", {"type": "number", "nullable": True}),
    "stop_after": {"oneOf": [TEXT, taken("", {"date": MAYBE_TEXT, "n_runs": _maybe(_ITERATIONS)})], "nullable": True},
    "stop_after_n": _maybe(_ITERATIONS),
}


def requests_timers(transfer: Schema) -> dict[str, Schema]:
    """transfer: the schema of that document, of which a timer takes all but submission_id and deadline."""
    fields: dict[str, Any] = {
        name: value for name, value in transfer["properties"].items() if name not in ("submission_id", "deadline")
    }
    required = [name for name in transfer["required"] if name in fields]
    body = {"type": "object", "properties": fields, "required": required}
    timer = {"timer_type": _maybe(one_of("transfer")), "name": MAYBE_TEXT, "schedule": _SCHEDULE, "body": body}
    older = {"name": MAYBE_TEXT, "callback_url": TEXT, "callback_body": {"type": "object"}, **_OLDER}
    return {
        "timer": taken("timer", {"timer": taken("schedule body", timer)}),
        "timer_job": taken("callback_url callback_body", older),
        "timer_change": taken("", {"name": MAYBE_TEXT, "schedule": _maybe(_SCHEDULE), **_OLDER}),
    }
