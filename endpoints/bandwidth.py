"""The bandwidth limits of an endpoint: rows that its managers set, each for all peers or for one, always or at times.

A row is a JSON document: {"limit": octets a second, "peer": the id of the endpoint at the other end or null,
"from" and "to": "HH:MM" or null, "time_zone": an IANA name, "days": ["mon", ...] or null}. A window whose end is before
its beginning lasts over midnight and belongs to the day on which it begins. Times are those of the wall clock of the
zone: where it leaves an hour out, or has one twice, the window is an hour shorter or longer.

The same row as text, for the ssh shell and the page: `LIMIT [peer=ID] [time=HH:MM-HH:MM] [zone=NAME] [days=mon,tue]`.
Pure: no clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from identity.error_categories import InvalidFieldError

#: Octets a second, of an endpoint and of a task.
LOWEST_RATE, HIGHEST_RATE = 100_000, 10**12
#: Rows of one endpoint: workers read all of them each second.
MOST_ROWS = 32
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KEYS = ("limit", "peer", "from", "to", "time_zone", "days")
Row = dict[str, Any]


def checked(field: str, value: object) -> list[Row]:
    """The rows in full, as they are stored; null: none. Raises InvalidFieldError."""
    rows = [] if value is None else value
    if not isinstance(rows, list) or len(rows) > MOST_ROWS:
        raise InvalidFieldError(field, f"Expected a list of at most {MOST_ROWS} limits.")
    return [_row(f"{field}[{number}]", row) for number, row in enumerate(rows)]


def in_force(rows: Iterable[object], now: datetime) -> list[Mapping[str, Any]]:
    """The rows that hold at this moment, which is aware. Rows that a newer version wrote otherwise are passed over."""
    return [row for row in rows if isinstance(row, Mapping) and isinstance(row.get("limit"), int) and _holds(row, now)]


def row_of_text(field: str, text: str) -> Row:
    """The document of a row that a person has written. Raises InvalidFieldError."""
    limit, *words = text.split() or [""]
    row: Row = {"limit": int(limit) if limit.isascii() and limit.isdecimal() and len(limit) < 20 else limit}
    for word in words:
        key, _, value = word.partition("=")
        if key == "time":
            row["from"], _, row["to"] = value.partition("-")
        elif key == "days":
            row["days"] = value.split(",")
        elif key in ("peer", "zone"):
            row["time_zone" if key == "zone" else key] = value
        else:
            raise InvalidFieldError(field, f"Expected {FORM}.")
    return row


#: The text of a row, for messages and help.
FORM = "LIMIT [peer=ID] [time=HH:MM-HH:MM] [zone=NAME] [days=mon,tue]"


def text_of_row(row: Mapping[str, Any]) -> str:
    """The reverse of `row_of_text`."""
    words = [str(row.get("limit"))]
    if row.get("peer"):
        words.append(f"peer={row['peer']}")
    if row.get("from"):
        words.append(f"time={row['from']}-{row.get('to')}")
    if row.get("from") or row.get("days"):
        words.append(f"zone={row.get('time_zone')}")
    if row.get("days"):
        words.append(f"days={','.join(row['days'])}")
    return " ".join(words)


# ---- the check of a row


def _row(field: str, row: object) -> Row:
    if not isinstance(row, Mapping):
        raise InvalidFieldError(field, "Expected a document with a limit.")
    if unknown := sorted(str(key) for key in row if key not in (*KEYS, "DATA_TYPE")):
        # A misspelled window would limit at all times, or never.
        raise InvalidFieldError(field, f"Unknown: {', '.join(unknown)[:200]}; expected {', '.join(KEYS)}.")
    begin, end = (_time(f"{field}.{name}", row.get(name)) for name in ("from", "to"))
    if (begin is None) is not (end is None) or (begin is not None and begin == end):
        raise InvalidFieldError(field, "Expected two different times, from and to, or none for the whole day.")
    return {
        "limit": _limit(f"{field}.limit", row.get("limit")),
        "peer": _peer(f"{field}.peer", row.get("peer")),
        "from": begin,
        "to": end,
        "time_zone": _zone(f"{field}.time_zone", row.get("time_zone")),
        "days": _days(f"{field}.days", row.get("days")),
    }


def _limit(field: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not LOWEST_RATE <= value <= HIGHEST_RATE:
        raise InvalidFieldError(field, f"Expected octets a second, from {LOWEST_RATE} to {HIGHEST_RATE}.")
    return value


def _peer(field: str, value: object) -> str | None:
    if value is None:
        return None
    try:
        return str(uuid.UUID(value)) if isinstance(value, str) else _refuse_peer(field)
    except ValueError:
        return _refuse_peer(field)


def _refuse_peer(field: str) -> str:
    raise InvalidFieldError(field, "Expected the id of an endpoint, or null for all.")


def _time(field: str, value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and len(value) == 5 and value[2] == ":" and (value[:2] + value[3:]).isascii():
        hours, minutes = value[:2], value[3:]
        if hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60:
            return value
    raise InvalidFieldError(field, "Expected a time of day from 00:00 to 23:59.")


def _zone(field: str, value: object) -> str:
    name = "UTC" if value is None else value
    if not isinstance(name, str) or len(name) > 64 or zone_of(name) is None:
        raise InvalidFieldError(field, "Expected the name of a time zone such as Europe/Berlin.")
    return name


def _days(field: str, value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(day in DAYS for day in value):
        raise InvalidFieldError(field, f"Expected a list of {', '.join(DAYS)}, or null for every day.")
    return [day for day in DAYS if day in value]


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of this name; None if this machine knows none."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # also ZoneInfoNotFoundError
        return None


# ---- windows


def _holds(row: Mapping[str, Any], now: datetime) -> bool:
    # A zone that this machine does not know: a limit too many is better than one too few.
    local = now.astimezone(zone_of(str(row.get("time_zone") or "UTC")) or UTC)
    begin, end, clock = row.get("from"), row.get("to"), f"{local:%H:%M}"
    day = local.date()
    if begin and end:
        if begin < end:
            if not begin <= clock < end:
                return False
        elif clock < end:
            day -= timedelta(days=1)
        elif clock < begin:
            return False
    days = row.get("days")
    return not days or DAYS[day.weekday()] in days
