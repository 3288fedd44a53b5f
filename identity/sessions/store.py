"""The session engine (`SESSION_ENGINE`): Django's sessions in the database, with a bound for each user.

A user has at most MOST sessions. One more ends the session of this user that would expire first. A session that was not
used for IDLE ends.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db

from identity.database_rows import delete_first
from identity.models import UserSession

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
