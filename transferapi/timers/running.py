"""Run due timers.

A run and its record are one transaction: a crash leaves both or neither. The submission_id is made of the timer and the
number of the run, so that a repeated run gives the same task.

- The error of a refused run is shown in the timer's document and counted. After `MAX_REFUSED` consecutive refusals, or
  after the first of a timer that runs once, the timer is inactive: its owner removes the cause (mostly a missing
  credential) and resumes it.
- While the task of the last run is not done, the next run waits: two tasks of one timer would write the same files.
- A timer that raises, or waits for a lock, is put off in a transaction of its own: the others run in the same round.
  One that was changed or run meanwhile is not put off.
- Users take turns: nobody waits for all timers of another user. A user whose submissions hold a lock has one turn.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import DatabaseError, InterfaceError, connection, transaction

from endpoints.error_meanings import meaning
from endpoints.errors import ActivationError
from identity import sign_in_proof
from identity.clock import moment
from identity.database_rows import query_rows
from identity.error_categories import CategorizedError
from identity.vault.errors import VaultError
from transferapi.tasks import maintenance
from transferapi.tasks.models import Task
from transferapi.tasks.request_rules import MAX_LABEL
from transferapi.tasks.states import Phase
from transferapi.tasks.submission import submit_transfer

from . import schedule, services
from .errors import TimerInvalidError
from .models import Timer

log = logging.getLogger(__name__)

#: Consecutive refusals after which a timer becomes inactive.
MAX_REFUSED = 3
#: The time after which a run that waits for the one before is tried again.
WAIT = timedelta(seconds=30)
#: The time after which a timer is tried again whose run has failed with an error that is no refusal.
AFTER_ERROR = timedelta(minutes=1)
#: Milliseconds that one timer waits for a lock, such as that of another submission of its owner: others wait behind it.
LOCK_MILLISECONDS = 2000
#: SQLSTATE of a lock timeout (PostgreSQL, appendix A).
_LOCK_NOT_AVAILABLE = "55P03"
#: Fields that a run writes. The body is not among them: it may be large.
_CHANGED = (
    "status", "inactive_reason", "next_run", "last_ran_at", "last_task", "last_error", "number_of_runs",
    "number_of_errors", "refused_in_a_row",
)  # fmt: skip


def run_due(limit: int, now: datetime | None = None) -> int:
    """Run due timers, at most `limit`; return the number of examined ones. Several workers may call it at once.

    During maintenance none is run.
    """
    if maintenance.current() is not None:
        return 0
    served: set[uuid.UUID] = set()
    waiting: set[uuid.UUID] = set()
    for number in range(limit):
        turn = _run_one(now, served | waiting)
        if turn is None and served:
            served.clear()
            turn = _run_one(now, waiting)
        if turn is None:
            return number
        (waiting if turn.waited else served).add(turn.owner_id)
    return limit


class _Turn(NamedTuple):
    """owner_id: of the timer that was examined. waited: whether its run waited in vain for another submission."""

    owner_id: uuid.UUID
    waited: bool = False


def correct_times(now: datetime | None = None) -> int:
    """Move runs to the time of their schedule that are later; returns their number.

    They were written while the clock of the database was ahead: a timer would rest until that time comes.
    """
    now, corrected = moment(now), 0
    for timer_id, document, runs, late in query_rows(_LATE, {"now": now, "slack": AFTER_ERROR}):
        try:
            following = schedule.read(json.loads(document)).after(now, runs)
        except TimerInvalidError:
            continue
        if following is not None and following < late:
            corrected += Timer.objects.filter(pk=timer_id, next_run=late).update(next_run=following)
    return corrected


#: Timers whose next run is more than an interval away, as that of a schedule that begins later is, too.
_LATE = """
    SELECT id, schedule, number_of_runs, next_run FROM timers_timer
    WHERE next_run > %(now)s + %(slack)s + CASE jsonb_typeof(schedule -> 'interval_seconds')
        WHEN 'number' THEN (schedule ->> 'interval_seconds')::float8 ELSE 0 END * interval '1 second'"""


def _run_one(now: datetime | None, passed_over: Collection[uuid.UUID]) -> _Turn | None:
    """Run one timer of other users than these; return None where none is due that is not locked."""
    timer: Timer | None = None
    due: datetime | None = None
    try:
        with transaction.atomic():
            now = moment(now)
            timer = _claim(now, passed_over)
            if timer is None:
                return None
            due = timer.next_run
            if timer.last_task_id and _unfinished(timer.last_task_id):
                timer.next_run = now + WAIT
            else:
                # Demands that were added since hold, as far as they can be checked without the person.
                with sign_in_proof.proven_by(sign_in_proof.Background):
                    _run(timer, now)
            timer.save(update_fields=_CHANGED)
    except Exception as error:
        if timer is None or now is None:
            raise
        # Where the whole database is away, this raises too.
        Timer.objects.filter(pk=timer.pk, next_run=due).update(next_run=now + AFTER_ERROR)
        log.warning("timer %s: a run failed, and is tried again later: %s", timer.pk, type(error).__name__)
        return _Turn(timer.owner_id, waited=getattr(error.__cause__, "pgcode", None) == _LOCK_NOT_AVAILABLE)
    return _Turn(timer.owner_id)


def _claim(now: datetime, passed_over: Collection[uuid.UUID]) -> Timer | None:
    """The timer of other users than these that has been due for longest, locked until the end of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MILLISECONDS}ms"])
    due = Timer.objects.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related("owner")
    return due.filter(next_run__lte=now).exclude(owner_id__in=passed_over).order_by("next_run").first()


def _unfinished(task_id: uuid.UUID) -> bool:
    return Task.objects.filter(pk=task_id).exclude(phase=Phase.DONE).exists()


def _run(timer: Timer, now: datetime) -> None:
    try:
        plan = schedule.read(timer.schedule)
    except TimerInvalidError as error:
        log.warning("timer %s: its schedule cannot be read", timer.pk)
        timer.last_error = {"code": "ClientError.BadRequest", "message": error.message}
        _stop(timer)
        return
    timer.last_ran_at = now
    timer.number_of_runs += 1
    timer.last_task, timer.last_error = _submitted(timer, now)
    if timer.last_error is None:
        timer.refused_in_a_row = 0
    else:
        timer.number_of_errors += 1
        timer.refused_in_a_row += 1
        log.info("timer %s: run %d was refused: %s", timer.pk, timer.number_of_runs, timer.last_error["code"])
    timer.next_run = plan.after(now, timer.number_of_runs)
    timer.status = "loaded" if timer.next_run else "ended"
    hopeless = timer.refused_in_a_row >= MAX_REFUSED and timer.next_run is not None
    if timer.last_error and (hopeless or plan.interval is None):
        _stop(timer)


def _stop(timer: Timer) -> None:
    """Make the timer inactive for its last error."""
    timer.status, timer.next_run = "inactive", None
    timer.inactive_reason = {"cause": "refused", "detail": timer.last_error}


def _submitted(timer: Timer, now: datetime) -> tuple[Task | None, dict[str, str] | None]:
    """The task of this run, or the error that refused it."""
    submission_id = uuid.uuid5(timer.pk, str(timer.number_of_runs))
    try:
        with transaction.atomic():
            request = services.request_of_body(timer.body, submission_id)
            task, _ = submit_transfer(timer.owner, replace(request, label=_label(timer, request.label)), now)
            return task, None
    except (DatabaseError, InterfaceError):
        raise
    except Exception as error:
        if isinstance(error, CategorizedError) and error.category is not None:
            return None, _refusal(error)
        # A timer that cannot run must not prevent the others.
        log.exception("timer %s: run %d failed", timer.pk, timer.number_of_runs)
        return None, {"code": "InternalError", "message": "The service failed to submit this."}


def _label(timer: Timer, given: str | None) -> str | None:
    """The label of the task: that of the transfer, or the name of the timer, with the number of the run."""
    name = str(given or timer.name).strip()
    number = f", run {timer.number_of_runs}"
    return name[: MAX_LABEL - len(number)].strip() + number if name else None


def _refusal(error: CategorizedError) -> dict[str, str]:
    """The document of an error, with the code that a submission would have been refused with."""
    if isinstance(error, ActivationError | VaultError):
        return {"code": "NoCredException", "message": "Your credential for one of the endpoints cannot be used."}
    _status, code, message = meaning(error, "")
    return {"code": code, "message": message}
