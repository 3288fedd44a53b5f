"""The maintenance mode of the service: changes are refused with a message of the operator, and reads go on.

One row of the database is the truth. A process reads it every second while anybody asks for it (`upkeep.watch`), and
requests look at what was read last; the first request after a pause waits until it was read again. So a process without
requests reads nothing. A process that never reads it, such as a command of the operator, is not in maintenance.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from transferapi.tasks import events

from .errors import RequestError
from .models import Maintenance

MAX_MESSAGE = 500
#: Seconds for which the first request of a process, or after a pause, waits until the row was read.
FIRST_SECONDS = 2.0
#: Seconds for which what was read counts as new, and for which the row is read again and again after a request.
FRESH_SECONDS, BUSY_SECONDS = 2.0, 10.0


@dataclass(frozen=True, slots=True)
class Notice:
    """The maintenance mode is on. until: the expected end. hold: no task runs, either."""

    message: str
    until: datetime | None
    hold: bool
    since: datetime

    @property
    def sentence(self) -> str:
        """The message for users, with the expected end."""
        end = f" Expected end: {self.until:%Y-%m-%d %H:%M} UTC." if self.until else ""
        return f"{self.message}{end}"


class Reader:
    """The thread of this process that reads the row: it waits with `wait`, and `refresh` is its answer."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked_at, self._read_at = -math.inf, -math.inf
        self._stopped = False
        #: False while the database is away: one request has waited in vain, and the others need not.
        self._answers = True

    def wait(self, pause: float, rest: float) -> None:
        """Return after `rest` seconds; after `pause`, which is not longer, where a request needs the row."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._stopped, pause):
                self._changed.wait_for(lambda: self._stopped or self.is_needed(), rest - pause)

    def is_needed(self) -> bool:
        """Whether a request has asked lately, or has asked in vain."""
        return not self._answers or time.monotonic() < self._asked_at + BUSY_SECONDS

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def has_read(self) -> None:
        with self._changed:
            self._read_at, self._answers = time.monotonic(), True
            self._changed.notify_all()

    def ask(self) -> None:
        """Wait until what is known is new, for at most FIRST_SECONDS."""
        now = time.monotonic()
        # Without the lock: an old value costs one look more.
        if now < self._asked_at + BUSY_SECONDS / 2 and now < self._read_at + FRESH_SECONDS:
            return
        with self._changed:
            self._asked_at = now
            self._changed.notify_all()
            new = self._changed.wait_for(
                lambda: time.monotonic() < self._read_at + FRESH_SECONDS, FIRST_SECONDS if self._answers else 0.0
            )
            # The database is away: the requests after this one need not wait for it, too.
            self._answers = self._answers and new


class _Known:
    """The state that this process has read last."""

    notice: Notice | None = None
    #: None where this process does not read it again and again by itself.
    reader: Reader | None = None


def current() -> Notice | None:
    """The maintenance mode as this process knows it, without a query; None: off."""
    if _Known.reader is not None:
        _Known.reader.ask()
    return _Known.notice


def expect() -> Reader:
    """From now on a thread of this process calls `refresh` where the reader lets it: requests may wait for it."""
    _Known.reader = Reader()
    return _Known.reader


def know(notice: Notice | None) -> None:
    """It was read just now."""
    _Known.notice = notice
    if _Known.reader is not None:
        _Known.reader.has_read()


def refresh() -> Notice | None:
    """Read the row. Raises django.db.Error; then what was known stays."""
    know(read())
    return _Known.notice


def notice_of(message: str | None, until: datetime | None, hold: bool | None, since: datetime | None) -> Notice | None:
    """The columns of the row; all are None where there is none."""
    return None if message is None or since is None else Notice(message, until, bool(hold), since)


def read() -> Notice | None:
    """The maintenance mode in the database; None: off."""
    row = Maintenance.objects.first()
    return Notice(row.message, row.until, row.hold, row.since) if row else None


def turn_on(message: str, until: datetime | None = None, *, hold: bool = False, now: datetime | None = None) -> None:
    """Begin, or change the message. Raises RequestError."""
    message = events.printable(message.strip())
    if not 0 < len(message) <= MAX_MESSAGE:
        raise RequestError("message", f"A message has 1 to {MAX_MESSAGE} characters.")
    time = now or timezone.now()
    if until is not None and until <= time:
        raise RequestError("until", "This time is in the past.")
    values: dict[str, Any] = {"message": message, "until": until, "hold": hold}
    Maintenance.objects.update_or_create(pk=1, defaults=values, create_defaults={**values, "since": time})


def turn_off() -> bool:
    """End it; returns whether it was on."""
    return bool(Maintenance.objects.all().delete()[0])
