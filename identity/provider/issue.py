"""Tokens made, found and taken back. Only their digests are kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from oauth2_provider.models import AccessToken, Application, RefreshToken, set_token_value
from oauth2_provider.settings import oauth2_settings

from identity.models import SignIn, SignInToken, User
from identity.one import one

from . import names, scopes

#: Longer strings are nobody's token and are not worth a digest.
MAX_LENGTH = 256


@dataclass(frozen=True, slots=True, repr=False)
class Issued:
    """The tokens for one resource server: the only time that they can be seen."""

    scope: str
    access_token: str
    refresh_token: str | None
    expires_in: int

    @property
    def resource_server(self) -> str:
        return scopes.resource_server(self.scope)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "access_token": self.access_token,
            "scope": self.scope,
            "expires_in": self.expires_in,
            "token_type": "Bearer",
            "resource_server": self.resource_server,
        }
        return found if self.refresh_token is None else {**found, "refresh_token": self.refresh_token}

    def with_renewal(self, token: str) -> Issued:
        """The refresh token stays; clients that are not told so would take it for gone."""
        return replace(self, refresh_token=token)


def access(
    application: Application,
    user: User,
    names_of_scopes: Sequence[str],
    *,
    first: str | None = None,
    sign_in: uuid.UUID | None = None,
    refresh: bool = False,
) -> list[Issued]:
    """One token for each resource server of these scopes, each with a refresh token of its own if wanted.

    first: what the first access token is to be, if that is decided already.
    """
    issued = []
    for asked in scopes.by_resource_server(names_of_scopes).values():
        token, first = first or names.access_token(), None
        row = _access_row(application, user, " ".join(asked), token, sign_in)
        renewal = names.refresh_token() if refresh else None
        if renewal is not None:
            _refresh_row(application, user, renewal, row, sign_in)
        issued.append(Issued(row.scope, token, renewal, _lifetime()))
    return issued


def _lifetime() -> int:
    return int(oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS)


def _access_row(application: Application, user: User, scope: str, token: str, sign_in: uuid.UUID | None) -> AccessToken:
    expires = datetime.now(UTC) + timedelta(seconds=_lifetime())
    row = AccessToken(application=application, user=user, scope=scope, expires=expires)
    set_token_value(row, token)
    row.save()
    if sign_in is not None:
        SignInToken.objects.create(access_token=row, sign_in_id=sign_in)
    return row


def _refresh_row(application: Application, user: User, token: str, row: AccessToken, family: uuid.UUID | None) -> None:
    renewal = RefreshToken(application=application, user=user, access_token=row, token_family=family)
    set_token_value(renewal, token)
    renewal.save()


def renew(renewal: RefreshToken, wanted: Sequence[str], token: str, rotated: str | None) -> Issued | None:
    """A fresh access token by a refresh token, which stays as it is, or gives way to `rotated`. In a transaction.

    None: somebody else has used it up, or taken it back, since it was looked at. An access token of before stays good
    until it expires, for other processes may be using it.
    """
    # Its row alone: what is joined to it would be as it was before we waited for the lock.
    kept = RefreshToken.objects.select_for_update().filter(pk=renewal.pk, revoked__isnull=True).first()
    if kept is None or kept.access_token is None:
        return None
    scope = " ".join(wanted)
    row = _access_row(kept.application, kept.user, scope, token, kept.token_family)
    # It knows its scopes by its access token: when fewer are wanted, it keeps the one that it has.
    anchor = row if scope == kept.access_token.scope else kept.access_token
    now = datetime.now(UTC)
    if rotated is None:
        RefreshToken.objects.filter(pk=kept.pk).update(access_token=anchor, updated=now)
    else:
        RefreshToken.objects.filter(pk=kept.pk).update(access_token=None, revoked=now, updated=now)
        _refresh_row(kept.application, kept.user, rotated, anchor, kept.token_family)
    return Issued(scope, token, rotated, _lifetime())


def find(token: str) -> AccessToken | None:
    """The access token, with its user and application, if it is good now."""
    if not token.startswith(names.ACCESS_TOKEN) or len(token) > MAX_LENGTH:
        return None
    kept = AccessToken.objects.select_related("user", "application__user")
    found: AccessToken | None = one(kept.filter(token_checksum=names.checksum(token)))
    if found is None or found.user is None or not found.user.is_active or found.expires <= datetime.now(UTC):
        return None
    return found if _serves(found.application) else None


def _serves(application: Application) -> bool:
    """Not when its owner is shut out: what he made is, too. Programs that registered themselves have none."""
    return application.user is None or application.user.is_active


def find_renewal(token: str) -> RefreshToken | None:
    """The refresh token, with its access token, user and application; revoked ones too, for reuse is an alarm."""
    if not token.startswith(names.REFRESH_TOKEN) or len(token) > MAX_LENGTH:
        return None
    found: RefreshToken | None = (
        RefreshToken.objects.select_related("access_token", "user", "application")
        .filter(token_checksum=names.checksum(token))
        .first()
    )
    return found


def is_good(renewal: RefreshToken) -> bool:
    """Neither revoked nor forgotten, and its user is active."""
    lives = renewal.revoked is None and renewal.access_token is not None
    return bool(lives and renewal.user.is_active and expiry(renewal) > datetime.now(UTC))


def expiry(renewal: RefreshToken) -> datetime:
    """It ends some time after its access token has; `updated` is its last use."""
    found: datetime = renewal.updated + timedelta(seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS + _lifetime())
    return found


def revoke(token: str, allowed: Callable[[Application], bool]) -> None:
    """Take back an access token, or a refresh token with all access tokens that came of it; nothing else, if unknown.

    allowed: whether the one who asks may do so with the tokens of this application.
    """
    if (row := find(token)) is not None and allowed(row.application):
        row.delete()
    elif (renewal := find_renewal(token)) is not None and allowed(renewal.application):
        revoke_renewal(renewal)


@transaction.atomic
def revoke_renewal(renewal: RefreshToken) -> None:
    """What it is for is known by its access token; one that has none has been revoked before."""
    if renewal.access_token is None:
        return
    server = scopes.resource_server(renewal.access_token.scope)
    now = datetime.now(UTC)
    RefreshToken.objects.filter(pk=renewal.pk).update(access_token=None, revoked=now, updated=now)
    of_sign_in = AccessToken.objects.filter(sign_in_token__sign_in=renewal.token_family)
    same = [pk for pk, scope in of_sign_in.values_list("pk", "scope") if scopes.resource_server(scope) == server]
    AccessToken.objects.filter(pk__in=same).delete()


@transaction.atomic
def end(sign_in: SignIn) -> None:
    """Take back everything that came of a consent."""
    RefreshToken.objects.filter(token_family=sign_in.pk).delete()
    AccessToken.objects.filter(sign_in_token__sign_in=sign_in).delete()
    sign_in.delete()
