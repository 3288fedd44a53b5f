"""The open sessions of a user: list, and end one, or all others.

The key of a session is a secret that signs in: outside this module a session is named by a digest of its key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from identity.audit import log as audit
from identity.error_categories import NotFoundError
from identity.models import User, UserSession

from .store import IDLE
from .store import ORIGIN as ORIGIN

#: Characters of what is kept of a session's origin, as in the table's columns.
MAX_ADDRESS, MAX_BROWSER, MAX_WAY = 64, 256, 16


class SessionNotFoundError(NotFoundError):
    kind = "session"


@dataclass(frozen=True, slots=True)
class OpenSession:
    """way: how the user signed in ("password", "code", "passkey", "link", "provider", "certificate"; "": unknown).

    browser: its User-Agent.
    """

    id: str
    begun_at: datetime | None
    last_used_at: datetime | None
    expires_at: datetime
    way: str
    address: str
    browser: str
    is_this: bool


def origin_of(way: str, address: str, browser: str, now: float) -> dict[str, object]:
    """The facts that a session keeps about its beginning, below the name `ORIGIN`. now: Unix time."""
    said = "".join(letter for letter in browser if letter.isprintable())[:MAX_BROWSER]
    return {"begun_at": now, "way": way[:MAX_WAY], "address": address[:MAX_ADDRESS], "browser": said}


def of(user: User, here: str = "") -> list[OpenSession]:
    """The open sessions of this user, the one used last first. here: the key of the session that asks."""
    now = datetime.now(UTC)
    rows = UserSession.objects.defer("session_data").filter(user=user, expire_date__gt=now)
    found = [row for row in rows.order_by("-last_used_at", "session_key") if not _is_idle(row, now)]
    return [_session(row, here) for row in found]


def end(user: User, ref: str) -> None:
    """End a session of this user at once. Raises SessionNotFoundError."""
    keys = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
    key = next((key for key in keys if _ref(key) == ref), None)
    if key is None:
        raise SessionNotFoundError(ref[:64])
    with transaction.atomic():
        UserSession.objects.filter(pk=key).delete()
        audit.record(audit.What.SESSION_ENDED, user, {"sessions": 1})


def end_others(user: User, here: str) -> int:
    """End the sessions of this user but `here`, at the user's own request; returns their number."""
    with transaction.atomic():
        if ended := end_all(user, here):
            audit.record(audit.What.SESSION_ENDED, user, {"sessions": ended})
    return ended


def end_all(user: User, but: str = "") -> int:
    """End all sessions of this user, but the one with this key; returns their number."""
    ended, _ = UserSession.objects.filter(user=user).exclude(pk=but).delete()
    return ended


def _is_idle(row: UserSession, now: datetime) -> bool:
    return row.last_used_at is not None and now - row.last_used_at >= IDLE


def _session(row: UserSession, here: str) -> OpenSession:
    return OpenSession(
        _ref(row.session_key),
        row.begun_at,
        row.last_used_at,
        row.expire_date,
        row.way,
        row.address,
        row.browser,
        bool(here) and row.session_key == here,
    )


def _ref(key: str) -> str:
    return hashlib.sha256(f"waybill session {key}".encode()).hexdigest()[:32]
