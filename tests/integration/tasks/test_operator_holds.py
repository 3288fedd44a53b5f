"""Tasks and timers that the operator holds: they wait, everybody sees why, and only the operator releases them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from deploy import cli
from deploy.stack.errors import StackError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, submit_delete, take, transfer_request
from tests.integration.pages import Browser
from tests.integration.rest import Api, assert_error
from tests.integration.tasks.test_paused_tasks import state
from transferapi.config import load
from transferapi.tasks import moves
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.managers import actions, holds, pauses
from transferapi.tasks.models import Task
from transferapi.tasks.moves import PAUSED, QUEUED, RUNNING
from transferapi.tasks.worker import leases, slice_end
from transferapi.timers import holds as timer_holds
from transferapi.timers import running, services
from transferapi.timers.models import Timer
from transferapi.timers.schedule import Schedule

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passwords", "commands_here")]


def waybill(*words: str) -> int:
    arguments = cli.parser().parse_args(words)
    return cli.carry_out(load({}), arguments)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


@pytest.fixture
def timer(alice: User, ep1: Endpoint, ep2: Endpoint) -> Timer:
    plan = Schedule(start=datetime.now(UTC) + timedelta(minutes=1), interval=3600)
    return services.create(alice, name="nightly", plan=plan, request=transfer_request(ep1, ep2))


def seen_at(path: str, user: User) -> str:
    browser = Browser()
    browser.sign_in(user)
    browser.get(path)
    return browser.text


def hold_all(reason: str = "Restored.") -> None:
    """As a restore does."""
    with connection.cursor() as cursor:
        cursor.execute(holds.HOLD_ALL.format(reason=f"'{reason}'") + timer_holds.HOLD_ALL)


def test_a_held_task_waits_and_its_owner_sees_why_and_cannot_release_it(alice: User, task: Task) -> None:
    assert waybill("task", "hold", str(task.pk), "--message", "After a restore") == 0
    seen = Api(alice).get(f"/task/{task.pk}").body
    assert (seen["status"], seen["is_paused"], seen["nice_status"]) == ("ACTIVE", True, "PAUSED_BY_OPERATOR")
    assert seen["nice_status_details"] == "The operator of this service holds this task: After a restore"
    assert "Held by the operator" in seen_at(f"/activity/{task.pk}", alice)
    assert Api(alice).post(f"/task/{task.pk}/resume").status == 200
    actions.resume(alice, [task.pk])
    assert state(task) == PAUSED
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE
    assert waybill("task", "release", str(task.pk)) == 0
    assert state(task) == QUEUED


def test_pauses_of_the_owner_outlive_a_release(alice: User, task: Task) -> None:
    actions.pause_own(alice, task.pk)
    holds.hold(task.pk)
    holds.release(task.pk)
    assert Task.objects.get(pk=task.pk).nice_status == pauses.BY_OWNER
    assert state(task) == PAUSED


def test_the_statement_of_a_restore_fences_the_worker_of_then(task: Task) -> None:
    grant = take(task)
    hold_all("Restored from '' a backup.")
    with pytest.raises(LeaseLostError):
        leases.heartbeat(task.pk, grant.epoch)
    with pytest.raises(LeaseLostError):
        slice_end.release(task.pk, grant.epoch, datetime.now(UTC))
    assert state(task) == RUNNING
    assert leases.acquire(task.pk, "another", now=later(1)) is leases.LeaseRefusal.PAUSED
    assert state(task) == PAUSED
    holds.release(task.pk)
    assert take(task, now=later(2)).epoch > grant.epoch + 1000


def test_a_held_task_may_be_canceled_by_its_owner_and_by_the_operator(alice: User, task: Task, ep1: Endpoint) -> None:
    other = submit_delete(alice, ep1)
    hold_all()
    assert holds.settle() == 2
    assert moves.cancel(alice, task.pk) is moves.CancelResult.CANCELED
    assert waybill("task", "cancel", str(other.pk), "--message", "It is of last week") == 0
    other.refresh_from_db()
    assert other.fatal_error_description == "The operator of this service canceled the task: It is of last week"
    assert not list(holds.unfinished(held=True))


def test_a_release_lists_what_each_would_do(
    alice: User, task: Task, timer: Timer, ep1: Endpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    delete = submit_delete(alice, ep1)
    Task.objects.filter(pk=task.pk).update(
        items_scanned=1, files=10, files_transferred=3, bytes_total=1000, bytes_transferred=250
    )
    hold_all()
    holds.settle()
    assert waybill("task", "release", "--all", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{task.pk}  alice  PAUSED_BY_OPERATOR  alice#ep1 -> alice#ep2  7 files left, 750 octets" in lines
    assert any(line.startswith(str(delete.pk)) and line.endswith("DELETES") for line in lines)
    assert any(line.startswith(str(timer.pk)) for line in lines)
    assert lines[-1] == "3 would be released"
    assert state(task) == state(delete) == PAUSED
    assert waybill("task", "list", "--held") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 held tasks, 1 held timers"
    assert waybill("task", "show", str(task.pk)) == 0
    assert "7 files left" in capsys.readouterr().out
    assert waybill("task", "release", "--all") == 0
    assert state(task) == state(delete) == QUEUED
    assert Timer.objects.get(pk=timer.pk).next_run == timer.next_run


def test_a_held_timer_does_not_run_before_it_is_released(alice: User, timer: Timer) -> None:
    hold_all()
    assert running.run_due(10, later(7200)) == 0
    assert_error(Api(alice, root="").post(f"/jobs/{timer.pk}/resume"), 409, "TimerHeld")
    shown = Api(alice, root="").get(f"/jobs/{timer.pk}").body
    assert (shown["status"], shown["inactive_reason"]) == ("inactive", {"cause": "held", "detail": None})
    page = seen_at("/timers", alice)
    assert "held by the operator" in page
    assert "/resume" not in page
    assert waybill("task", "release", str(timer.pk)) == 0
    assert Timer.objects.get(pk=timer.pk).status == "new"


def test_the_held_timer_of_a_deactivated_user_stays_paused(alice: User, timer: Timer) -> None:
    hold_all()
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert timer_holds.release(timer.pk).inactive_reason == services.PAUSED


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "monthly", "day": 31},
        {"type": "recurring", "start": "soon", "interval_seconds": 60, "end": None},
        {"type": "recurring", "start": "2026-01-01T00:00:00+00:00", "interval_seconds": 0, "end": None},
        {"type": "recurring", "start": "2026-01-01T00:00:00", "interval_seconds": 60, "end": None},
    ],
)
def test_a_timer_whose_schedule_cannot_be_read_is_named_and_the_others_are_released(
    alice: User,
    ep1: Endpoint,
    ep2: Endpoint,
    timer: Timer,
    capsys: pytest.CaptureFixture[str],
    wrong: dict[str, object],
) -> None:
    plan = Schedule(start=datetime.now(UTC) + timedelta(minutes=1), interval=3600)
    other = services.create(alice, name="after it", plan=plan, request=transfer_request(ep1, ep2))
    hold_all()
    Timer.objects.filter(pk=timer.pk).update(schedule=wrong)
    assert waybill("task", "release", "--all") == 1
    said = capsys.readouterr()
    assert f"waybill: {timer.pk} stays held: schedule: This version cannot read the schedule" in said.err
    assert said.out.endswith("1 released\n")
    assert [one.pk for one in timer_holds.held()] == [timer.pk]
    assert Timer.objects.get(pk=other.pk).status == "new"


def test_a_timer_whose_schedule_cannot_be_read_does_not_stop_others(
    alice: User, ep1: Endpoint, ep2: Endpoint, timer: Timer
) -> None:
    plan = Schedule(start=datetime.now(UTC) + timedelta(minutes=2), interval=3600)
    other = services.create(alice, name="after it", plan=plan, request=transfer_request(ep1, ep2))
    Timer.objects.filter(pk=timer.pk).update(schedule={"type": "monthly", "day": 31})
    assert running.run_due(10, later(300)) == 2
    found = Timer.objects.get(pk=timer.pk)
    assert (found.status, found.number_of_runs) == ("inactive", 0)
    assert found.inactive_reason == {"cause": "refused", "detail": found.last_error}
    assert Timer.objects.get(pk=other.pk).number_of_runs == 1


def test_wrong_ids_are_refused_and_release_nothing(task: Task) -> None:
    holds.hold(task.pk)
    unknown = "12345678-1234-4234-8234-123456789012"
    for words in (("release", str(task.pk), unknown), ("release",), ("show", unknown), ("cancel", unknown)):
        with pytest.raises(StackError):
            waybill("task", *words)
    with pytest.raises(StackError):
        waybill("task", "hold", unknown)
    with pytest.raises(StackError):
        waybill("task", "hold", str(task.pk), "--message", "x" * 501)
    assert state(task) == PAUSED
