"""The sessions of the pages (`SESSION_ENGINE`): in a table that names their users; they are listed and ended.

A user has at most MOST sessions. One more ends the session of this user that would expire first. A session that was not
used for IDLE ends. The key of a session is a secret that signs in: outside this module a session is named by a digest
of its key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.db import transaction

from . import audit
from .database_rows import delete_first
from .error_categories import NotFoundError
from .models import User, UserSession

#: Sessions of one user.
MOST = 100
#: The longest time between two requests of a session.
IDLE = timedelta(hours=4)
#: `last_used_at` need not be written at every request.
PRECISION = timedelta(minutes=1)
#: The name in a session of what its user sees of it: `begun_at` (Unix time), `way`, `address` and `browser`.
ORIGIN = "origin"


class SessionStore(db.SessionStore):
    @classmethod
    def get_model_class(cls) -> type[UserSession]:
        return UserSession

    def create_model_instance(self, data: dict[str, Any]) -> UserSession:
        """The row, with the user who has signed in."""
        row = super().create_model_instance(data)
        assert isinstance(row, UserSession)
        row.user_id = UUID(data[SESSION_KEY]) if SESSION_KEY in data else None
        row.last_used_at = datetime.now(UTC)
        _show_origin(row, data.get(ORIGIN, {}))
        return row

    def save(self, must_create: bool = False) -> None:
        super().save(must_create)
        if SESSION_KEY in self:
            _end_first(UUID(self[SESSION_KEY]))

    def _get_session_from_db(self) -> UserSession | None:
        """The row of this session, and the note that it was used; None where it has ended."""
        row: UserSession | None = super()._get_session_from_db()  # type: ignore[misc]  # of Django, since 2.2
        if row is None or row.user_id is None or row.last_used_at is None:
            return row
        idle = datetime.now(UTC) - row.last_used_at
        if idle >= IDLE:
            UserSession.objects.filter(pk=row.pk).delete()
            self._session_key = None
            return None
        if idle >= PRECISION:
            UserSession.objects.filter(pk=row.pk).update(last_used_at=datetime.now(UTC))
        return row


def _show_origin(row: UserSession, origin: dict[str, Any]) -> None:
    begun = origin.get("begun_at")
    row.begun_at = datetime.fromtimestamp(begun, UTC) if begun else None
    row.way, row.address, row.browser = (str(origin.get(name, "")) for name in ("way", "address", "browser"))


def _end_first(user_id: UUID) -> None:
    """End the sessions of a user beyond MOST."""
    of_user = UserSession.objects.filter(user_id=user_id).order_by("-expire_date", "session_key")
    delete_first(of_user[MOST:], MOST)


def delete_expired() -> None:
    """Delete the sessions whose time is over, and those of users who have not used them for IDLE."""
    now = datetime.now(UTC)
    UserSession.objects.filter(expire_date__lt=now).delete()
    UserSession.objects.filter(user__isnull=False, last_used_at__lt=now - IDLE).delete()


#: Characters of what is kept of a session's origin, as in the table's columns.
MAX_ADDRESS, MAX_BROWSER, MAX_WAY = 64, 256, 16


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


def open_sessions(user: User, here: str = "") -> list[OpenSession]:
    """The open sessions of this user, the one used last first. here: the key of the session that asks."""
    now = datetime.now(UTC)
    rows = UserSession.objects.defer("session_data").filter(user=user, expire_date__gt=now)
    found = [row for row in rows.order_by("-last_used_at", "session_key") if not _is_idle(row, now)]
    return [_session(row, here) for row in found]


def end(user: User, ref: str) -> None:
    """End a session of this user at once. Raises NotFoundError."""
    keys = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
    key = next((key for key in keys if _ref(key) == ref), None)
    if key is None:
        raise NotFoundError(ref[:64], "session")
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
