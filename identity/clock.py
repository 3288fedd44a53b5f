"""The current time by the database's clock, which all workers and web servers share; tests pass their own."""

from __future__ import annotations

import time as _time
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection

#: Seconds by which the clock of a machine may differ from the database's. Certificates and tokens are judged by it.
MOST_DIFFERENCE = 5.0


def moment(now: datetime | None = None) -> datetime:
    """`now`, or the time by the database's clock."""
    if now is not None:
        return now
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (time,) = cursor.fetchone()
    assert isinstance(time, datetime)
    return time


def boottime() -> float:
    """Seconds since this machine was started; nobody sets this clock, and it counts the time of a suspended machine.

    CLOCK_BOOTTIME (clock_gettime(2)); where there is none, the monotonic clock.
    """
    number = getattr(_time, "CLOCK_BOOTTIME", None)
    return _time.monotonic() if number is None else _time.clock_gettime(number)


class ClockReading(NamedTuple):
    """A time of the database, and `boottime` before it was asked for and after it was known."""

    time: datetime
    before: float
    after: float


def read(now: datetime | None = None) -> ClockReading:
    """The time by the database's clock, or `now`."""
    before = boottime()
    return ClockReading(moment(now), before, boottime())


class CarriedClock:
    """The database's time, carried on by `boottime` from one reading to the next.

    Between two readings only the rates of the two clocks matter. The wall clock of this machine decides nothing.
    """

    def __init__(self, reading: ClockReading) -> None:
        #: The database's time when `boottime` was 0: it lies between two bounds, by the time that the answer took.
        self._begin = _bounds(reading)[0]

    def correct(self, reading: ClockReading) -> None:
        """Move as far as the reading demands, and no farther: what is within its bounds stays."""
        earliest, latest = _bounds(reading)
        self._begin = min(max(self._begin, earliest), latest)

    def now(self) -> datetime:
        return self._begin + timedelta(seconds=boottime())


def _bounds(reading: ClockReading) -> tuple[datetime, datetime]:
    return reading.time - timedelta(seconds=reading.after), reading.time - timedelta(seconds=reading.before)


def ahead() -> float:
    """Seconds by which the wall clock of this machine is ahead of the database's; negative where it is behind.

    The time that the answer takes counts for neither.
    """
    before, begun = _time.time(), _time.monotonic()
    theirs = moment().timestamp()
    after = before + (_time.monotonic() - begun)
    return min(0.0, after - theirs) + max(0.0, before - theirs)
