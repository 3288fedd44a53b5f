"""Tasks and webhooks of users who were deactivated or deleted.

Tasks are canceled and not held: nobody can answer for what they still write, and a task that went on after weeks would
overwrite what was changed since. Files that have arrived stay; with a sync option the same transfer, submitted again,
moves the rest (docs/decisions/accounts-and-providers.md).
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import QuerySet

from identity.clock import moment
from identity.models import User
from transferapi.tasks import moves
from transferapi.tasks.models import Mail, Task, Webhook
from transferapi.tasks.notify import webhooks
from transferapi.tasks.states import Phase

MESSAGE = "The account of the owner was deactivated."
#: Tasks that one call of `cancel_left_over` cancels.
AT_ONCE = 100


def user_deactivated(user: User, **_: object) -> None:
    """In the transaction of the deactivation: a task ends now, or at the next heartbeat of its worker."""
    now = moment()
    _cancel(_unfinished().filter(owner=user), now)
    for row in Webhook.objects.select_for_update().filter(owner=user, disabled_at__isnull=True):
        webhooks.disable(row, MESSAGE, now)
        row.save(update_fields=["disabled_at", "last_error"])


def user_deleted(user: User, **_: object) -> None:
    Webhook.objects.filter(owner=user).delete()
    Mail.objects.filter(user=user).delete()


def cancel_left_over(now: datetime | None = None) -> int:
    """Cancel what a submission that was under way at the deactivation has added; returns the number of tasks."""
    return _cancel(_unfinished().filter(owner__is_active=False)[:AT_ONCE], moment(now))


def _unfinished() -> QuerySet[Task]:
    return Task.objects.filter(cancel_requested_at=None).exclude(phase=Phase.DONE).order_by("pk")


def _cancel(found: QuerySet[Task], now: datetime) -> int:
    keys = list(found.values_list("pk", flat=True))
    for key in keys:
        moves.cancel_by_admin(key, "BOTH", MESSAGE, now)
    return len(keys)
