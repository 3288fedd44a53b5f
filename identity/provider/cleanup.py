"""Deletion of expired rows: codes, tokens, consents without tokens, registrations that nobody used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet
from oauth2_provider.models import AccessToken, Grant, RefreshToken
from oauth2_provider.settings import oauth2_settings

from identity.database_rows import delete_first
from identity.models import SignIn

from . import registration

#: Rows of each table that one round deletes, so that a round is short.
BATCH = 1000
#: Rounds in one run.
ROUNDS = 20
#: A consent is kept for so long after its code was used, to detect a second use of the code.
ALARM = timedelta(days=1)


def run() -> None:
    """Run rounds while there is something to delete, at most ROUNDS."""
    for _ in range(ROUNDS):
        if delete_expired() < BATCH:
            return


def delete_expired(now: datetime | None = None) -> int:
    """Run one round; returns the number of rows deleted."""
    now = now or datetime.now(UTC)
    lifetime = timedelta(
        seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS + oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS
    )
    over = [
        Grant.objects.filter(expires__lt=now),
        RefreshToken.objects.filter(updated__lt=now - lifetime),
        # A refresh token takes its scopes from its access token, so that one is kept with it.
        AccessToken.objects.filter(expires__lt=now, refresh_token__isnull=True),
        _empty_sign_ins(now),
        registration.forgotten(now),
        registration.surplus(),
        registration.counted(now),
    ]
    return sum(delete_first(rows.order_by("pk"), BATCH) for rows in over)


def _empty_sign_ins(now: datetime) -> QuerySet[SignIn]:
    renewals = RefreshToken.objects.filter(token_family=OuterRef("pk"))
    return SignIn.objects.filter(~Exists(renewals), tokens__isnull=True, created_at__lt=now - ALARM)
