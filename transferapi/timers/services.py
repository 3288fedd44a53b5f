"""Timers for their owners: create, find, change, pause, resume, delete. `running.py` runs due timers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import BigIntegerField, F, Func, QuerySet, Sum

from identity.clock import moment
from identity.error_categories import NotFoundError, RefusedError
from identity.gsi.printable import FORBIDDEN
from identity.models import User
from transferapi.tasks import options, submission
from transferapi.tasks.errors import RequestError
from transferapi.tasks.submission import TransferItem, TransferRequest

from . import schedule
from .errors import TIMER_ENDED, TIMER_HELD, TOO_MANY_TIMERS, TimerInvalidError
from .models import Timer
from .schedule import Schedule

#: The most timers of one user that will run or are paused, and the most ended ones that are kept.
MAX_TIMERS, MAX_ENDED = 100, 100
MAX_NAME = 256
#: Stored octets: of one timer, and of all timers of a user, with ended ones.
MAX_BODY, MAX_BODIES = 1 << 20, 32 << 20
#: The reason of a timer that its owner has paused.
PAUSED = {"cause": "user", "detail": None}
#: The reason of a timer that the operator holds (`holds.py`).
HELD = {"cause": "held", "detail": None}


def create(
    user: User, *, name: str | None, plan: Schedule, request: TransferRequest, now: datetime | None = None
) -> Timer:
    """Create a timer that submits this transfer by this schedule; its submission_id is ignored.

    Raises TimerInvalidError, TOO_MANY_TIMERS, and as `submission.check_transfer`: a transfer that could not be
    submitted at any time is refused now.
    """
    if request.deadline is not None:
        raise RequestError("deadline", "Each run has a deadline of its own: a timer's transfer has none.")
    now = moment(now)
    plan.check(now)
    timer = Timer(owner=user, name=_name(name), submitted_at=now, schedule=plan.document())
    timer.next_run = schedule.read(timer.schedule).start
    timer.body = stored_body(request, *submission.check_transfer(user, request))
    if len(timer.body) > MAX_BODY:
        raise TimerInvalidError("body", f"A timer's transfer has at most {MAX_BODY} octets.")
    with transaction.atomic():
        _lock_owner(user)
        _check_number(user)
        _check_room(user, len(timer.body))
        ended = Timer.objects.filter(owner=user, status="ended").order_by("-submitted_at").values_list("pk", flat=True)
        Timer.objects.filter(pk__in=list(ended[MAX_ENDED:])).delete()
        timer.save(force_insert=True)
    return timer


def _lock_owner(user: User) -> None:
    """Lock the user until the end of this transaction: limits hold. Take it before the locks of timers."""
    list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))


def _check_number(user: User) -> None:
    """Check that the user may have one more timer that will run. Raises TOO_MANY_TIMERS."""
    if Timer.objects.filter(owner=user).exclude(status="ended").count() >= MAX_TIMERS:
        raise RefusedError(TOO_MANY_TIMERS, limit=MAX_TIMERS)


def _check_room(user: User, octets: int) -> None:
    """Check that the user's timers have room for a transfer of so many octets. Raises TimerInvalidError."""
    length = Func(F("body"), function="octet_length", output_field=BigIntegerField())
    there = Timer.objects.filter(owner=user).aggregate(octets=Sum(length))["octets"] or 0
    if there + octets > MAX_BODIES:
        raise TimerInvalidError("body", f"The transfers of all your timers have at most {MAX_BODIES} octets.")


def all_of(user: User) -> list[Timer]:
    """The user's timers, the oldest first, without their bodies (which may be large)."""
    return list(_whole().filter(owner=user).defer("body").order_by("submitted_at", "pk"))


def get(user: User, timer_id: uuid.UUID) -> Timer:
    """The timer with the task of its last run. Raises NotFoundError."""
    found = _whole().filter(owner=user, pk=timer_id).first()
    if found is None:
        raise NotFoundError(str(timer_id), "timer")
    return found


def update(
    user: User,
    timer_id: uuid.UUID,
    *,
    name: str | None = None,
    plan: Schedule | None = None,
    now: datetime | None = None,
) -> Timer:
    """Change the fields that are not None. Raises NotFoundError, TimerInvalidError, TOO_MANY_TIMERS.

    A new schedule counts earlier runs; a timer that has ended runs again where its new schedule has runs left.
    """
    with transaction.atomic():
        _lock_owner(user)
        timer = _held(user, timer_id)
        if name is not None:
            timer.name = _name(name)
        if plan is not None:
            has_ended = timer.status == "ended"
            _replan(timer, plan, moment(now))
            if has_ended and timer.status != "ended":
                _check_number(user)
        timer.save()
    return get(user, timer_id)


def pause(user: User, timer_id: uuid.UUID) -> Timer:
    """Pause the timer until it is resumed. Raises NotFoundError, TIMER_ENDED."""
    with transaction.atomic():
        timer = _living(user, timer_id)
        if timer.status != "inactive":
            timer.status, timer.inactive_reason, timer.next_run = "inactive", PAUSED, None
            timer.save()
    return timer


def resume(user: User, timer_id: uuid.UUID, now: datetime | None = None) -> Timer:
    """Resume the timer at the next time of its schedule; one that runs once and was late or refused, at once.

    Raises NotFoundError, TIMER_ENDED, TIMER_HELD.
    """
    with transaction.atomic():
        timer = _living(user, timer_id)
        if timer.inactive_reason == HELD:
            raise RefusedError(TIMER_HELD)
        if timer.status == "inactive":
            go_on(timer, moment(now))
            timer.save()
    return timer


def go_on(timer: Timer, now: datetime) -> None:
    """Schedule the next run of an inactive timer, as `resume` does; the caller has locked and saves it."""
    plan = schedule.read(timer.schedule)
    _load(timer, max(now, plan.start) if plan.interval is None else plan.after(now, timer.number_of_runs))


def delete(user: User, timer_id: uuid.UUID) -> Timer:
    """Delete the timer and return it as it was. Its tasks continue. Raises NotFoundError."""
    with transaction.atomic():
        timer = get(user, _held(user, timer_id).pk)
        Timer.objects.filter(pk=timer_id).delete()
    return timer


def body_of(timer: Timer) -> dict[str, object]:
    """The transfer document."""
    found: dict[str, object] = json.loads(timer.body)
    return found


def _whole() -> QuerySet[Timer]:
    return Timer.objects.select_related("last_task")


def _held(user: User, timer_id: uuid.UUID) -> Timer:
    """Lock the timer until the end of this transaction."""
    found = Timer.objects.select_for_update(no_key=True).filter(owner=user, pk=timer_id).first()
    if found is None:
        raise NotFoundError(str(timer_id), "timer")
    return found


def _living(user: User, timer_id: uuid.UUID) -> Timer:
    timer = _held(user, timer_id)
    if timer.status == "ended":
        raise RefusedError(TIMER_ENDED)
    return timer


def _replan(timer: Timer, plan: Schedule, now: datetime) -> None:
    plan.check(now)
    timer.schedule = plan.document()
    if timer.status == "inactive":
        return
    again = plan.interval is not None and timer.number_of_runs > 0
    _load(timer, plan.after(now, timer.number_of_runs) if again else plan.start)


def _load(timer: Timer, following: datetime | None) -> None:
    """Schedule the next run; None: the timer has ended."""
    active = "loaded" if timer.number_of_runs else "new"
    timer.status = "ended" if following is None else active
    timer.next_run = following
    timer.inactive_reason, timer.refused_in_a_row = None, 0


def _name(text: str | None) -> str:
    text = text or ""
    if len(text) > MAX_NAME or FORBIDDEN.search(text):
        raise TimerInvalidError("name", f"Expected a line of at most {MAX_NAME} characters.")
    return text


_ITEM_FIELDS = ("source_path", "destination_path", "recursive", "external_checksum", "checksum_algorithm")


def stored_body(request: TransferRequest, source_id: uuid.UUID, destination_id: uuid.UUID) -> str:
    """The stored form of an accepted request."""
    given = {name: request.options.get(name) for name in options.TRANSFER}
    document = {
        "DATA_TYPE": "transfer",
        "source_endpoint": str(source_id),
        "destination_endpoint": str(destination_id),
        "label": request.label,
        **{name: value for name, value in given.items() if value is not None},
        "DATA": [_item_document(item) for item in request.items],
    }
    return json.dumps(document)


def request_of_body(body: str, submission_id: uuid.UUID) -> TransferRequest:
    """The request of one run, with the label of the transfer."""
    document: Mapping[str, Any] = json.loads(body)
    return TransferRequest(
        submission_id=submission_id,
        source_endpoint=document["source_endpoint"],
        destination_endpoint=document["destination_endpoint"],
        items=[_item(one) for one in document["DATA"]],
        label=document["label"],
        options=options.given(options.TRANSFER, document),
    )


def _item_document(item: TransferItem) -> dict[str, Any]:
    given = {name: getattr(item, name) for name in _ITEM_FIELDS}
    kind = "transfer_symlink_item" if item.symlink else "transfer_item"
    return {"DATA_TYPE": kind, **{name: value for name, value in given.items() if value is not None}}


def _item(document: Mapping[str, Any]) -> TransferItem:
    given = {name: document.get(name) for name in _ITEM_FIELDS}
    return TransferItem(**given, symlink=document["DATA_TYPE"] == "transfer_symlink_item")  # type: ignore[arg-type]


def user_deactivated(user: User, **_: object) -> None:
    running = Timer.objects.filter(owner=user, status__in=("new", "loaded"))
    running.update(status="inactive", inactive_reason=PAUSED, next_run=None)


def user_deleted(user: User, **_: object) -> None:
    Timer.objects.filter(owner=user).delete()
