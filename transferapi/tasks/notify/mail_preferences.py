"""Whether a user wants mails about tasks, credentials and access. By default, a user does."""

from __future__ import annotations

from identity.models import User
from transferapi.tasks.models import MailPreference


def enabled(user: User) -> bool:
    return not MailPreference.objects.filter(user=user, enabled=False).exists()


def choose(user: User, *, enabled: bool) -> None:
    """It holds for mails from now on; those that wait to be sent are sent."""
    MailPreference.objects.update_or_create(user=user, defaults={"enabled": enabled})
