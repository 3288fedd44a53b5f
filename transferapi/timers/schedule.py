"""When a timer runs: once, or at every point of a grid that begins at its start, until its end. Knows no clock.

A run that was missed (nobody was there to do it, or the one before was not done) is made up for once, however many
points of the grid have passed; then the grid goes on as if nothing had been.
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
#: How far ahead a start or an end may be, and how far back.
HORIZON = timedelta(days=20 * 366)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times are aware; interval None: once. At most one of end and iterations is given; none: for ever."""

    start: datetime
    #: Seconds.
    interval: int | None = None
    #: What is due until then is run.
    end: datetime | None = None
    #: Runs in all.
    iterations: int | None = None

    def check(self, now: datetime) -> None:
        """-> TimerInvalidError"""
        for name, moment in (("start", self.start), ("end.datetime", self.end)):
            if moment is not None and abs(moment - now) > HORIZON:
                raise TimerInvalidError(f"schedule.{name}", "A time within some years is wanted here.")
        if self.interval is not None and not MIN_INTERVAL <= self.interval <= MAX_INTERVAL:
            raise TimerInvalidError(
                "schedule.interval_seconds", f"A whole number from {MIN_INTERVAL} to {MAX_INTERVAL} is wanted here."
            )
        if self.iterations is not None and not 1 <= self.iterations <= MAX_ITERATIONS:
            raise TimerInvalidError(
                "schedule.end.iterations", f"A whole number from 1 to {MAX_ITERATIONS} is wanted here."
            )
        if self.end is not None and self.end < max(self.start, now):
            raise TimerInvalidError("schedule.end.datetime", "The end comes before the first run.")

    def after(self, now: datetime, runs: int) -> datetime | None:
        """The first point of the grid after now, when there were so many runs already; None: there is none."""
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
        """As the Timers API has it. Some of its clients read `count`, others `iterations`."""
        if self.interval is None:
            return {"type": "once", "datetime": _text(self.start)}
        end: dict[str, Any] | None = None
        if self.end is not None:
            end = {"condition": "time", "datetime": _text(self.end)}
        elif self.iterations is not None:
            end = {"condition": "iterations", "iterations": self.iterations, "count": self.iterations}
        return {"type": "recurring", "start": _text(self.start), "interval_seconds": self.interval, "end": end}


def read(document: Mapping[str, Any]) -> Schedule:
    """What `Schedule.document` has written."""
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
    """Whole seconds, as clients send them."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
