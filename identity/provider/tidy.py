"""Forgets what is over: codes, tokens, consents that nothing is left of, registrations that nobody used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from oauth2_provider.models import AccessToken, Grant, RefreshToken
from oauth2_provider.settings import oauth2_settings

from identity.models import SignIn

from . import registration

#: Rows of a kind at a time: a round is over soon, and the next one comes in seconds.
BATCH = 1000
#: Rounds at one time.
ROUNDS = 20
#: A used code is an alarm for so long after.
ALARM = timedelta(days=1)


def run() -> None:
    """Round after round, while there is something and for so long."""
    for _ in range(ROUNDS):
        if tidy() < BATCH:
            return


def tidy(now: datetime | None = None) -> int:
    """One round; how many rows were deleted."""
    now = now or datetime.now(UTC)
    lifetime = timedelta(
        seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS + oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS
    )
    over = [
        Grant.objects.filter(expires__lt=now),
        RefreshToken.objects.filter(updated__lt=now - lifetime),
        # A refresh token knows its scopes by its access token, which stays with it.
        AccessToken.objects.filter(expires__lt=now, refresh_token__isnull=True),
        _empty_sign_ins(now),
        registration.forgotten(now),
    ]
    return sum(_delete(rows) for rows in over)


def _empty_sign_ins(now: datetime) -> QuerySet[SignIn]:
    renewals = RefreshToken.objects.filter(token_family=OuterRef("pk"))
    return SignIn.objects.filter(~Exists(renewals), tokens__isnull=True, created_at__lt=now - ALARM)


def _delete(rows: QuerySet[Any]) -> int:
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
    return int(rows.model.objects.filter(pk__in=keys).delete()[0]) if keys else 0
