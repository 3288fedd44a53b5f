"""Bounds on the codes, tokens and consents of one user: the newest stay, and a new one ends the oldest.

A program that loses a token so gets another one as it does after its expiry.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

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
    _delete(_beyond(of_user.order_by("-pk"), MOST_ACCESS_TOKENS))


def bound_replaced(family: uuid.UUID | None) -> None:
    replaced = RefreshToken.objects.filter(token_family=family, revoked__isnull=False)
    _delete(_beyond(replaced.order_by("-pk"), MOST_REPLACED))


def bound_codes(user: User) -> None:
    _delete(_beyond(Grant.objects.filter(user=user).order_by("-pk"), MOST_CODES))


def sign_ins_beyond(user: User) -> list[SignIn]:
    """The oldest consents, which are to be ended."""
    return list(_beyond(SignIn.objects.filter(user=user).order_by("-created_at", "pk"), MOST_SIGN_INS))


def _beyond(newest_first: QuerySet[Any], most: int) -> QuerySet[Any]:
    return newest_first[most : most + _AT_ONCE]


def _delete(rows: QuerySet[Any]) -> None:
    if keys := list(rows.values_list("pk", flat=True)):
        rows.model.objects.filter(pk__in=keys).delete()
