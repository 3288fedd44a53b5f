"""Deadlines as users write them, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_SPAN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
FORMS = "a time span (30m, 12h, 1d12h), a date (2031-05-01 or '2031-05-01 13:30Z'), or a time of day (13:30)"


def from_now(text: str) -> datetime:
    """For `Option.read`. Raises ValueError."""
    return deadline(text, datetime.now(UTC))


def deadline(text: str, now: datetime) -> datetime:
    """The moment that `text` means: a span from now, a date, or the next such time of day. Raises ValueError."""
    text = text.strip()
    if (span := _SPAN.fullmatch(text)) and any(span.groups()):
        days, hours, minutes = (int(part or 0) for part in span.groups())
        return now + timedelta(days=days, hours=hours, minutes=minutes)
    if clock := _CLOCK.fullmatch(text.removesuffix("Z")):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = now.astimezone(UTC).replace(hour=hour, minute=minute, second=second, microsecond=0)
        return found if found > now else found + timedelta(days=1)
    return _date(text)


def _date(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is not a deadline; it is {FORMS}") from None
