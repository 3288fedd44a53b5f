"""The schedule of a timer: once, or at intervals from its start until its end. Pure: no clock.

Missed runs (no worker, or the run before was not done) are made up for by a single run, however many intervals have
passed; then the schedule continues unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from .errors import TimerInvalidError

#: Seconds.
MIN_INTERVAL, MAX_INTERVAL = 60, 10 * 366 * 86400
MAX_ITERATIONS = 1_000_000
#: The limits of a start or an end in the future, and in the past.
HORIZON = timedelta(days=20 * 366)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times are aware. interval None: once. At most one of end and iterations is given; none: without end."""

    start: datetime
    #: Seconds.
    interval: int | None = None
    #: The time of the last run at the latest.
    end: datetime | None = None
    #: The number of runs.
    iterations: int | None = None

    def check(self, now: datetime) -> None:
        """Check the bounds of the schedule. Raises TimerInvalidError."""
        for name, moment in (("start", self.start), ("end.datetime", self.end)):
            if moment is not None and abs(moment - now) > HORIZON:
                raise TimerInvalidError(f"schedule.{name}", "Expected a time within some years.")
        if self.interval is not None and not MIN_INTERVAL <= self.interval <= MAX_INTERVAL:
            raise TimerInvalidError(
                "schedule.interval_seconds", f"Expected a whole number from {MIN_INTERVAL} to {MAX_INTERVAL}."
            )
        if self.iterations is not None and not 1 <= self.iterations <= MAX_ITERATIONS:
            raise TimerInvalidError("schedule.end.iterations", f"Expected a whole number from 1 to {MAX_ITERATIONS}.")
        if self.end is not None and self.end < max(self.start, now):
            raise TimerInvalidError("schedule.end.datetime", "The end comes before the first run.")

    def after(self, now: datetime, runs: int) -> datetime | None:
        """The time of the first run after now, after this number of runs; None if there is none."""
        if self.interval is None:
            return None if runs else self.start
        if self.iterations is not None and runs >= self.iterations:
            return None
        if now < self.start:
            following = self.start
        else:
            passed = (now - self.start) // timedelta(seconds=self.interval)
            following = self.start + timedelta(seconds=self.interval * (passed + 1))
        return None if self.end is not None and following > self.end else following

    def document(self) -> dict[str, Any]:
        """The document of the Timers API. Some of its clients read `count`, others `iterations`."""
        if self.interval is None:
            return {"type": "once", "datetime": _text(self.start)}
        end: dict[str, Any] | None = None
        if self.end is not None:
            end = {"condition": "time", "datetime": _text(self.end)}
        elif self.iterations is not None:
            end = {"condition": "iterations", "iterations": self.iterations, "count": self.iterations}
        return {"type": "recurring", "start": _text(self.start), "interval_seconds": self.interval, "end": end}


def read(document: Mapping[str, Any]) -> Schedule:
    """Read the output of `Schedule.document`. Raises TimerInvalidError for anything else, as of a newer version."""
    try:
        plan = _read(document)
        usable = _is_usable(plan)
    except (LookupError, TypeError, ValueError, AttributeError):
        usable = False
    if not usable:
        raise TimerInvalidError("schedule", "This version cannot read the schedule; give the timer another one.")
    return plan


def read_if_known(document: Mapping[str, Any]) -> Schedule | None:
    """`read` for those who only show it; None for what this version cannot read."""
    try:
        return read(document)
    except TimerInvalidError:
        return None


def _is_usable(plan: Schedule) -> bool:
    """Whether `after` can compute with these values."""
    # As they were stored: the types are not yet certain.
    numbers: list[Any] = [one for one in (plan.interval, plan.iterations) if one is not None]
    return all(isinstance(one, int) and 0 < one <= MAX_INTERVAL for one in numbers) and all(
        one.tzinfo is not None for one in (plan.start, plan.end) if one is not None
    )


def _read(document: Mapping[str, Any]) -> Schedule:
    if document["type"] == "once":
        return Schedule(datetime.fromisoformat(document["datetime"]))
    end = document["end"] or {}
    until = end.get("datetime")
    return Schedule(
        datetime.fromisoformat(document["start"]),
        document["interval_seconds"],
        datetime.fromisoformat(until) if until else None,
        end.get("iterations"),
    )


def _text(moment: datetime) -> str:
    """The time in whole seconds, as clients send it."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
