"""API tokens: made, shown once, recognised by digest, taken back.

TokenError
|- TooManyTokensError(limit)   this user has as many as he may
|- TokenNotFoundError          no such token, or not one of this user
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from datetime import UTC, datetime, timedelta

from django.db import transaction

from .hidden import Secret
from .models import ApiToken, User
from .one import one

#: Tells a reader of logs, and secret scanners, what kind of string leaked.
PREFIX = "wb_"
RANDOM_BYTES = 32
#: Longer strings are nobody's token and are not worth a digest.
MAX_LENGTH = 256
#: `last_used_at` is for people: it need not be written at every request.
LAST_USED_PRECISION = timedelta(minutes=1)
#: Of one user; those that have expired count until they are revoked.
MOST = 100


class TokenError(Exception):
    """The root of this tree."""


class TooManyTokensError(TokenError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class TokenNotFoundError(TokenError):
    """`ref` is as it was asked for."""

    def __init__(self, ref: object) -> None:
        super().__init__(ref)
        self.ref = ref


def issue(user: User, label: str = "", lifetime: timedelta | None = None) -> str:
    """Make a token for this user; lifetime None: until it is revoked. This is the only time it can be seen."""
    return _make(user, label, lifetime)[1]


def make(user: User, label: str, lifetime: timedelta | None = None) -> tuple[ApiToken, Secret]:
    """As `issue`, for a user who asks for it himself: the row, and the token. -> TooManyTokensError"""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if ApiToken.objects.filter(user=user).count() >= MOST:
            raise TooManyTokensError(MOST)
        row, token = _make(user, label, lifetime)
    return row, Secret(token)


def of(user: User) -> list[ApiToken]:
    """All of this user, the newest first."""
    return list(ApiToken.objects.filter(user=user).order_by("-created_at", "pk"))


def revoke_own(user: User, token_id: uuid.UUID | str) -> None:
    """Take a token of this user back, at once. -> TokenNotFoundError"""
    try:
        deleted, _ = ApiToken.objects.filter(user=user, pk=uuid.UUID(str(token_id))).delete()
    except ValueError:
        deleted = 0
    if not deleted:
        raise TokenNotFoundError(token_id)


def _make(user: User, label: str, lifetime: timedelta | None) -> tuple[ApiToken, str]:
    token = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    expires_at = None if lifetime is None else datetime.now(UTC) + lifetime
    return ApiToken.objects.create(user=user, label=label, digest=_digest(token), expires_at=expires_at), token


def authenticate(token: str) -> User | None:
    """Whose token this is; None when it is nobody's, expired, revoked, or its user is not active.

    The look-up is by digest: how long it takes tells nothing about a token that is almost right.
    """
    if not token.startswith(PREFIX) or len(token) > MAX_LENGTH:
        return None
    found = one(ApiToken.objects.select_related("user").filter(digest=_digest(token)))
    now = datetime.now(UTC)
    if found is None or not found.user.is_active or (found.expires_at and found.expires_at <= now):
        return None
    if found.last_used_at is None or now - found.last_used_at >= LAST_USED_PRECISION:
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
    return found.user


def revoke(token_id: uuid.UUID) -> bool:
    """Take a token back, at once; whether there was one."""
    deleted, _ = ApiToken.objects.filter(pk=token_id).delete()
    return deleted > 0


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
