"""API tokens: create, show once, authenticate by digest, revoke."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from django.db import transaction

from .database_rows import row_by_id, single_row
from .error_categories import InvalidFieldError, LimitExceededError, NotFoundError
from .hidden import Secret, digest_of, new_text
from .models import ApiToken, User
from .signals import account_changed

#: A prefix by which readers of logs and secret scanners recognise a leaked token.
PREFIX = "wb_"
#: Characters: a longer string is not a token and is not hashed.
MAX_LENGTH = 256
#: `last_used_at` is shown to people: it need not be written at every request.
LAST_USED_PRECISION = timedelta(minutes=1)
#: Tokens of one user; expired ones count until they are revoked.
MOST = 100
MAX_LABEL = 128
#: The longest lifetime of a token that expires, and that of one for which nobody chooses another.
MAX_LIFETIME, USUAL_LIFETIME = timedelta(days=3660), timedelta(days=90)


class TooManyTokensError(LimitExceededError):
    template = "A user has at most {self.limit} tokens"


class TokenNotFoundError(NotFoundError):
    kind = "token"


def make(user: User, label: str, lifetime: timedelta | None = None) -> tuple[ApiToken, Secret]:
    """Make a token: the only way to one, for the user and for the operator.

    It counts against the bound of the user, is in the audit log, and its owner gets a mail. lifetime None: until it is
    revoked. Returns the row and the token, which cannot be read again later. Raises TooManyTokensError,
    InvalidFieldError.
    """
    if len(label) > MAX_LABEL or not label.isprintable():
        raise InvalidFieldError("label", f"it is one line of at most {MAX_LABEL} characters")
    if lifetime is not None and not timedelta() < lifetime <= MAX_LIFETIME:
        raise InvalidFieldError("lifetime", f"it is positive, and at most {MAX_LIFETIME.days} days")
    token = new_text(PREFIX)
    expires_at = None if lifetime is None else datetime.now(UTC) + lifetime
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if ApiToken.objects.filter(user=user).count() >= MOST:
            raise TooManyTokensError(MOST)
        row = ApiToken.objects.create(user=user, label=label, digest=digest_of(token), expires_at=expires_at)
        account_changed.send(ApiToken, user=user, what="token_made", name=label)
    return row, Secret(token)


def issue(user: User, label: str = "", lifetime: timedelta | None = None) -> str:
    """The token that `make` makes, as text."""
    return make(user, label, lifetime)[1].value


def of(user: User) -> list[ApiToken]:
    """All tokens of this user, the newest first."""
    return list(ApiToken.objects.filter(user=user).order_by("-created_at", "pk"))


def revoke_own(user: User, token_id: uuid.UUID | str, actor: User | None = None) -> None:
    """Revoke a token of this user at once. actor: staff who do it. Raises TokenNotFoundError."""
    unknown = TokenNotFoundError(token_id)
    row = row_by_id(ApiToken.objects.filter(user=user), token_id, unknown)
    if not row.delete()[0]:
        raise unknown
    account_changed.send(ApiToken, user=user, what="token_revoked", name=row.label, actor=actor)


def authenticate(token: str) -> User | None:
    """The user of a token; None when it is unknown, expired or revoked, or its user is inactive.

    The look-up is by digest, so its duration reveals nothing about a token that is almost correct.
    """
    if not token.startswith(PREFIX) or len(token) > MAX_LENGTH:
        return None
    found = single_row(ApiToken.objects.select_related("user").filter(digest=digest_of(token)))
    now = datetime.now(UTC)
    if found is None or not found.user.is_active or (found.expires_at and found.expires_at <= now):
        return None
    if found.last_used_at is None or now - found.last_used_at >= LAST_USED_PRECISION:
        ApiToken.objects.filter(pk=found.pk).update(last_used_at=now)
    return found.user
