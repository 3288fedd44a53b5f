"""Timers of users who were deactivated (they are paused: their user may resume them later) or deleted."""

from __future__ import annotations

from identity.models import User

from .models import Timer
from .services import PAUSED


def user_deactivated(user: User, **_: object) -> None:
    running = Timer.objects.filter(owner=user, status__in=("new", "loaded"))
    running.update(status="inactive", inactive_reason=PAUSED, next_run=None)


def user_deleted(user: User, **_: object) -> None:
    Timer.objects.filter(owner=user).delete()
