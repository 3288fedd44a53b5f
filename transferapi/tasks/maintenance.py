"""The maintenance mode of the service: changes are refused with a message of the operator, and reads go on.

One row of the database is the truth. Each process reads it every second (`upkeep.watch`), and requests look at what was
read last. A process that has never read it, such as a command of the operator, is not in maintenance.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from transferapi.tasks import events

from .errors import RequestError
from .models import Maintenance

MAX_MESSAGE = 500
#: Seconds for which the first request of a process waits until the row was read.
FIRST_SECONDS = 2.0


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


class _Known:
    """The state that this process has read last."""

    notice: Notice | None = None
    #: None where this process does not read it again and again.
    first: threading.Event | None = None


def current() -> Notice | None:
    """The maintenance mode as this process knows it, without a query; None: off."""
    if _Known.first is not None and not _Known.first.wait(FIRST_SECONDS):
        # The database is away: the requests after this one need not wait for it, too.
        _Known.first.set()
    return _Known.notice


def expect() -> None:
    """From now on this process calls `refresh` again and again: the first request waits for the first call."""
    _Known.first = threading.Event()


def refresh() -> Notice | None:
    """Read the row. Raises django.db.Error; then what was known stays."""
    _Known.notice = read()
    if _Known.first is not None:
        _Known.first.set()
    return _Known.notice


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
