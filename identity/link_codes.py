"""The codes of links by mail. A code is made when its mail is sent, and is in the mail only: tables have its digest."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import QuerySet

from .database_rows import single_row
from .hidden import Secret, digest_of, new_text
from .models import AddressChange, RecoveryLink, User

T = TypeVar("T")
#: Characters of the longest text that is looked up.
MAX_LENGTH = 64


def is_possible(code: str) -> bool:
    """Whether this may be a code: text that may be sent on."""
    return 0 < len(code) <= MAX_LENGTH and code.isascii() and code.isprintable()


def renew(rows: QuerySet[Any], lifetime: timedelta, now: datetime, **more: object) -> Secret | None:
    """A new code for the row of a link, which serves for `lifetime` from now on; an earlier code serves no more.

    None where the link is over. more: other columns to set.
    """
    code = new_text()
    changed = rows.filter(expires_at__gt=now).update(digest=digest_of(code), expires_at=now + lifetime, **more)
    return Secret(code) if changed else None


def row_of(rows: QuerySet[Any, T], code: Secret, lapsed: Exception) -> T:
    """The row of this code, which has its digest. Raises `lapsed` where there is none."""
    found = single_row(rows.filter(digest=digest_of(code.value))) if 0 < len(code.value) <= MAX_LENGTH else None
    if found is None:
        raise lapsed
    return found


def end_all(user: User, now: datetime) -> None:
    """End the links for a new password and for another mail address: who asked for one may be somebody else.

    The rows of changes stay: they count, and the former address still gets its notice.
    """
    RecoveryLink.objects.filter(user=user).delete()
    AddressChange.objects.filter(user=user, expires_at__gt=now).update(digest=None, expires_at=now)
