"""Tokens of the OAuth2 server: issue, find and revoke. Only their digests are stored.

A user has a bounded number of codes, tokens and consents: the newest stay, and a new one ends the oldest. A program
that loses a token so gets another one as it does after its expiry.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken, set_token_value
from oauth2_provider.settings import oauth2_settings

from identity import audit, user_names
from identity.database_rows import delete_first, single_row
from identity.models import SignIn, SignInToken, User
from identity.sign_in_proof import SignInProof

from . import clients, scopes, token_values

#: Access tokens of a user at one application, besides those from which refresh tokens take their scopes.
MOST_ACCESS_TOKENS = 1000
#: Consents of a user, to all applications; each has at most one refresh token for each resource server.
MOST_SIGN_INS = 1000
#: Codes of a user that no application has exchanged yet.
MOST_CODES = 100
#: Refresh tokens of one consent that were replaced: their second use is detected.
MOST_REPLACED = 100
#: The most rows that one call deletes. Usually there is one: each new row is followed by a call.
_AT_ONCE = 100


def bound_access_tokens(application: Application, user: User) -> None:
    of_user = AccessToken.objects.filter(application=application, user=user, refresh_token__isnull=True)
    delete_first(of_user.order_by("-pk")[MOST_ACCESS_TOKENS:], _AT_ONCE)


def bound_replaced(family: uuid.UUID | None) -> None:
    replaced = RefreshToken.objects.filter(token_family=family, revoked__isnull=False)
    delete_first(replaced.order_by("-pk")[MOST_REPLACED:], _AT_ONCE)


def bound_codes(user: User) -> None:
    delete_first(Grant.objects.filter(user=user).order_by("-pk")[MOST_CODES:], _AT_ONCE)


def sign_ins_beyond(user: User) -> list[SignIn]:
    """The oldest consents, which are to be ended."""
    newest_first = SignIn.objects.filter(user=user).order_by("-created_at", "pk")
    return list(newest_first[MOST_SIGN_INS : MOST_SIGN_INS + _AT_ONCE])


#: Characters: a longer string is not a token and is not hashed.
MAX_LENGTH = 256


@dataclass(frozen=True, slots=True, repr=False)
class IssuedTokens:
    """The tokens for one resource server, readable only now."""

    scope: str
    access_token: str
    refresh_token: str | None
    expires_in: int

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "access_token": self.access_token,
            "scope": self.scope,
            "expires_in": self.expires_in,
            "token_type": "Bearer",
            "resource_server": scopes.resource_server(self.scope),
        }
        return found if self.refresh_token is None else {**found, "refresh_token": self.refresh_token}


def access(
    application: Application,
    user: User,
    names_of_scopes: Sequence[str],
    *,
    first: str | None = None,
    sign_in: uuid.UUID | None = None,
    refresh: bool = False,
) -> list[IssuedTokens]:
    """Issue one access token for each resource server of these scopes, each with its own refresh token if wanted.

    first: the value of the first access token, if the caller has chosen it already.
    """
    issued = []
    for asked in scopes.by_resource_server(names_of_scopes).values():
        token, first = first or token_values.access_token(), None
        row = _access_row(application, user, " ".join(asked), token, sign_in)
        renewal = token_values.refresh_token() if refresh else None
        if renewal is not None:
            _refresh_row(application, user, renewal, row, sign_in)
        issued.append(IssuedTokens(row.scope, token, renewal, _lifetime()))
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
    bound_access_tokens(application, user)
    return row


def _refresh_row(application: Application, user: User, token: str, row: AccessToken, family: uuid.UUID | None) -> None:
    renewal = RefreshToken(application=application, user=user, access_token=row, token_family=family)
    set_token_value(renewal, token)
    renewal.save()


def renew(renewal: RefreshToken, wanted: Sequence[str], token: str, rotated: str | None) -> IssuedTokens | None:
    """Issue an access token by a refresh token, which is kept, or replaced by `rotated`. Call it in a transaction.

    None: another request has used or revoked the refresh token since it was read. An earlier access token stays valid
    until it expires, because other processes may be using it.
    """
    # Lock only its own row: joined rows would be those from before the wait for the lock.
    kept = RefreshToken.objects.select_for_update().filter(pk=renewal.pk, revoked__isnull=True).first()
    if kept is None or kept.access_token is None:
        return None
    scope = " ".join(wanted)
    row = _access_row(kept.application, kept.user, scope, token, kept.token_family)
    # A refresh token takes its scopes from its access token: when fewer are requested, it keeps the present one.
    anchor = row if scope == kept.access_token.scope else kept.access_token
    now = datetime.now(UTC)
    if rotated is None:
        RefreshToken.objects.filter(pk=kept.pk).update(access_token=anchor, updated=now)
    else:
        RefreshToken.objects.filter(pk=kept.pk).update(access_token=None, revoked=now, updated=now)
        _refresh_row(kept.application, kept.user, rotated, anchor, kept.token_family)
        bound_replaced(kept.token_family)
    return IssuedTokens(scope, token, rotated, _lifetime())


def find(token: str) -> AccessToken | None:
    """The access token with its user and application, if it is valid now."""
    if not token.startswith(token_values.ACCESS_TOKEN) or len(token) > MAX_LENGTH:
        return None
    kept = AccessToken.objects.select_related("user", "application__user", "sign_in_token__sign_in")
    found: AccessToken | None = single_row(kept.filter(token_checksum=token_values.checksum(token)))
    if found is None or found.user is None or not found.user.is_active or found.expires <= datetime.now(UTC):
        return None
    return found if _serves(found.application) else None


def proof_of(token: AccessToken) -> SignInProof | None:
    """The sign-in of the person who gave the consent; None for a token of an application that acts alone."""
    row: SignInToken | None = getattr(token, "sign_in_token", None)
    if row is None:
        return None
    identity = row.sign_in.identity or user_names.identity_name(token.user)
    return SignInProof(row.sign_in.authenticated_at, row.sign_in.way, identity)


def _serves(application: Application) -> bool:
    """Not when the application's owner is inactive. Programs that registered themselves have no owner."""
    return application.user is None or application.user.is_active


def find_renewal(token: str) -> RefreshToken | None:
    """The refresh token with its access token, user and application; also a revoked one, to detect reuse."""
    if not token.startswith(token_values.REFRESH_TOKEN) or len(token) > MAX_LENGTH:
        return None
    found: RefreshToken | None = (
        RefreshToken.objects.select_related("access_token", "user", "application")
        .filter(token_checksum=token_values.checksum(token))
        .first()
    )
    return found


def is_good(renewal: RefreshToken) -> bool:
    """Whether it is neither revoked nor expired, and its user is active."""
    lives = renewal.revoked is None and renewal.access_token is not None
    return bool(lives and renewal.user.is_active and expiry(renewal) > datetime.now(UTC))


def expiry(renewal: RefreshToken) -> datetime:
    """A refresh token expires some time after its access token; `updated` is its last use."""
    found: datetime = renewal.updated + timedelta(seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS + _lifetime())
    return found


def revoke(token: str, allowed: Callable[[Application], bool]) -> None:
    """Revoke an access token, or a refresh token with all access tokens derived from it; an unknown token is ignored.

    allowed: whether the caller may revoke tokens of this application.
    """
    if (row := find(token)) is not None and allowed(row.application):
        _record_end(row.user, row.application, "access token")
        row.delete()
    elif (renewal := find_renewal(token)) is not None and allowed(renewal.application):
        _record_end(renewal.user, renewal.application, "refresh token")
        revoke_renewal(renewal)


def _record_end(user: User, application: Application, kind: str) -> None:
    audit.record(audit.What.TOKEN_TAKEN_BACK, user, {**clients.facts(application), "kind": kind})


@transaction.atomic
def revoke_renewal(renewal: RefreshToken) -> None:
    """The access token of the row gives its resource server; a row without one was revoked before."""
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
    """Revoke all tokens of a consent and delete it."""
    RefreshToken.objects.filter(token_family=sign_in.pk).delete()
    AccessToken.objects.filter(sign_in_token__sign_in=sign_in).delete()
    sign_in.delete()
