"""Run due timers.

A run and its record are one transaction: a crash leaves both or neither. The submission_id is made of the timer and the
number of the run, so that a repeated run gives the same task.

- The error of a refused run is shown in the timer's document and counted. After `MAX_REFUSED` consecutive refusals, or
  after the first of a timer that runs once, the timer is inactive: its owner removes the cause (mostly a missing
  credential) and resumes it.
- While the task of the last run is not done, the next run waits: two tasks of one timer would write the same files.
- A timer that raises, or waits for a lock, is put off in a transaction of its own: the others run in the same round.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, connection, transaction

from endpoints.errors import ActivationError, EndpointNotFoundError, PathNotPermittedError, RegistryError
from identity import sign_in_proof
from identity.clock import moment
from identity.vault.errors import VaultError
from transferapi.tasks import maintenance
from transferapi.tasks.errors import NoCredentialError, RequestError, TaskError, TooManyPendingError, TooMuchError
from transferapi.tasks.models import Task
from transferapi.tasks.request_rules import MAX_LABEL
from transferapi.tasks.states import Phase
from transferapi.tasks.submission import submit_transfer

from . import bodies, schedule
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
    for number in range(limit):
        if not _run_one(now):
            return number
    return limit


def _run_one(now: datetime | None) -> bool:
    """Run one timer; return False where none is due that is not locked."""
    timer: Timer | None = None
    try:
        with transaction.atomic():
            now = moment(now)
            timer = _claim(now)
            if timer is None:
                return False
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
        Timer.objects.filter(pk=timer.pk, next_run__isnull=False).update(next_run=now + AFTER_ERROR)
        log.warning("timer %s: a run failed, and is tried again later: %s", timer.pk, type(error).__name__)
    return True


def _claim(now: datetime) -> Timer | None:
    """The timer that has been due for longest, locked until the end of this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MILLISECONDS}ms"])
    due = Timer.objects.select_for_update(skip_locked=True, no_key=True, of=("self",)).select_related("owner")
    return due.filter(next_run__lte=now).order_by("next_run").first()


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
            request = bodies.request_of(timer.body, submission_id)
            task, _ = submit_transfer(timer.owner, replace(request, label=_label(timer, request.label)), now)
            return task, None
    except (TaskError, RegistryError, ActivationError, VaultError) as error:
        return None, _refusal(error)
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        # A timer that cannot run must not prevent the others.
        log.exception("timer %s: run %d failed", timer.pk, timer.number_of_runs)
        return None, {"code": "InternalError", "message": "The service failed to submit this."}


def _label(timer: Timer, given: str | None) -> str | None:
    """The label of the task: that of the transfer, or the name of the timer, with the number of the run."""
    name = str(given or timer.name).strip()
    number = f", run {timer.number_of_runs}"
    return name[: MAX_LABEL - len(number)].strip() + number if name else None


def _refusal(error: Exception) -> dict[str, str]:
    """The document of an error, with the code that a submission would have been refused with."""
    match error:
        case NoCredentialError():
            return {"code": "NoCredException", "message": error.reason}
        case RequestError():
            return {"code": error.code, "message": f"{error.field}: {error.reason}"}
        case TooManyPendingError() | TooMuchError():
            return {"code": "ClientError.LimitExceeded", "message": error.message}
        case EndpointNotFoundError():
            return {"code": "EndpointNotFound", "message": f"There is no endpoint {error.ref} (any more)."}
        case PathNotPermittedError():
            return {"code": "EndpointPermissionDenied", "message": error.message}
        case RegistryError():
            return {"code": "PermissionDenied", "message": "You may not do this on these endpoints (any more)."}
    return {"code": "NoCredException", "message": "Your credential for one of the endpoints cannot be used."}
