"""Bounds on the codes, tokens and consents of one user: the newest stay, and a new one ends the oldest.

A program that loses a token so gets another one as it does after its expiry.
"""

from __future__ import annotations

import uuid

from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity.database_rows import delete_first
from identity.models import SignIn, User

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
