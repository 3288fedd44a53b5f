"""Timers that the operator of the service keeps from running, as after a restore from a backup.

A held timer is inactive with a reason of its own, and has no next run: no version of the code runs it, and its owner
cannot resume it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime

from django.db import transaction

from identity.clock import moment
from identity.error_categories import NotFoundError

from .models import Timer
from .services import HELD, PAUSED, go_on

#: SQL: hold every timer that would run. Each released schema has its columns.
HOLD_ALL = """
UPDATE timers_timer SET status = 'inactive', next_run = NULL, inactive_reason = '{"cause": "held", "detail": null}'
    WHERE status IN ('new', 'loaded');
"""


def held() -> Iterator[Timer]:
    """All held timers, the oldest first, without their bodies (which may be large)."""
    rows = Timer.objects.filter(status="inactive", inactive_reason=HELD).select_related("owner").defer("body")
    return rows.order_by("submitted_at", "pk").iterator(chunk_size=200)


def release(timer_id: uuid.UUID, now: datetime | None = None) -> Timer:
    """Let a held timer run at the next time of its schedule; one that runs once and is late, at once.

    The timer of a deactivated user stays paused. Raises NotFoundError, also where it is not held, and
    TimerInvalidError for a schedule that this version cannot read.
    """
    with transaction.atomic():
        rows = Timer.objects.select_for_update(no_key=True, of=("self",)).select_related("owner")
        timer = rows.filter(pk=timer_id, inactive_reason=HELD).first()
        if timer is None:
            raise NotFoundError(str(timer_id), "timer")
        if timer.owner.is_active:
            go_on(timer, moment(now))
        else:
            timer.inactive_reason = PAUSED
        timer.save(update_fields=["status", "inactive_reason", "next_run", "refused_in_a_row"])
    return timer
