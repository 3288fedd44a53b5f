"""A task with which workers are lost again and again leaves them to other tasks for a while."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, submit, take
from transferapi.tasks import moves
from transferapi.tasks.models import Event, File, Item, Lease, Task
from transferapi.tasks.records import FoundFile
from transferapi.tasks.states import Phase, Status
from transferapi.tasks.worker import leases, losses, scan_results, slice_end
from transferapi.tasks.worker.leases import TTL, Grant, LeaseRefusal, acquire, next_runnable

T0 = datetime.now(UTC)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, now=T0, deadline=T0 + timedelta(days=1))


def lose(task: Task, now: datetime) -> datetime:
    """A worker takes the task and is lost at once. Returns the time at which the sweep finds the task."""
    take(task, "lost", now=now)
    return now + TTL


def waits_for(task: Task, now: datetime) -> float:
    """The seconds that a lost task is made to wait."""
    assert acquire(task.pk, "heir", now=now) is LeaseRefusal.LOST
    task.refresh_from_db()
    assert (task.status, task.phase) == (Status.ACTIVE, Phase.QUEUED)
    return (task.next_run_at - now).total_seconds()


def lose_often(task: Task, now: datetime = T0) -> datetime:
    """As often as a task may lose its worker before it waits."""
    for _ in range(losses.FREE + 1):
        now = lose(task, now)
    return now


def test_a_task_that_loses_its_workers_without_progress_waits_longer_each_time(task: Task) -> None:
    now, waits = lose_often(task), []
    for _ in range(8):
        assert next_runnable(now=now).lost == [task.pk]
        waits.append(waits_for(task, now))
        now += timedelta(seconds=waits[-1])
        assert acquire(task.pk, "early", now=now - timedelta(seconds=1)) is LeaseRefusal.NOT_DUE
        assert next_runnable(now=now).others == [task.pk]
        now = lose(task, now)
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]


def test_the_user_sees_why_it_waits(task: Task) -> None:
    waits_for(task, lose_often(task))
    event = Event.objects.filter(task=task).latest("id")
    assert (event.code, event.is_error) == ("WORKER_LOST", True)
    assert event.description == task.nice_status_details
    assert task.nice_status == "WORKER_LOST"
    assert event.description == (
        "3 workers in a row were lost with this task before it made progress. It is tried again after 10 s. If this "
        "goes on, the operator of this service can find the cause in the workers' logs."
    )


def test_the_log_of_the_workers_has_the_task(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    waits_for(task, lose_often(task))
    assert f"3 workers in a row were lost with task {task.pk}: it waits for 10 s" in caplog.messages


def test_a_task_that_makes_progress_never_waits(task: Task) -> None:
    now = T0
    for _ in range(10):
        now = lose(task, now)
        Task.objects.filter(pk=task.pk).update(bytes_transferred=Task.objects.get(pk=task.pk).bytes_transferred + 1)
    assert Lease.objects.get(pk=task.pk).losses == 0


def test_a_slice_that_ends_in_order_is_the_end_of_the_row(task: Task) -> None:
    now = lose(task, lose(task, T0))
    grant = take(task, now=now)
    assert Lease.objects.get(pk=task.pk).losses == losses.FREE
    slice_end.release(task.pk, grant.epoch, now, now=now)
    assert Lease.objects.get(pk=task.pk).losses == 0
    lose_often(task, now)


def test_a_canceled_task_does_not_wait_for_its_end(alice: User, task: Task) -> None:
    now = lose_often(task)
    assert moves.cancel(alice, task.pk, now) is moves.CancelResult.ACCEPTED
    acquire(task.pk, "heir", now=now)
    task.refresh_from_db()
    assert (task.status, task.fatal_error_code) == (Status.FAILED, "CANCELED")


def test_a_task_that_waits_is_canceled_at_once(alice: User, task: Task) -> None:
    now = lose_often(task)
    waits_for(task, now)
    assert moves.cancel(alice, task.pk, now) is moves.CancelResult.CANCELED


def test_a_task_waits_until_its_deadline_at_most_and_then_expires(task: Task) -> None:
    now = lose_often(task)
    Task.objects.filter(pk=task.pk).update(deadline=now + timedelta(seconds=3))
    assert waits_for(task, now) == 3
    assert moves.expire_overdue(now + timedelta(seconds=3)) == 1
    task.refresh_from_db()
    assert task.fatal_error_code == "EXPIRED"


def test_a_lease_of_an_older_version_counts_no_loss(task: Task) -> None:
    """Its workers write neither column."""
    now = T0
    for _ in range(losses.FREE + 3):
        now = lose(task, now)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE tasks_lease SET losses = DEFAULT, progress = DEFAULT WHERE task_id = %s", [task.pk])
        Task.objects.filter(pk=task.pk).update(items_scanned=1)
    take(task, now=now)


@pytest.mark.django_db(transaction=True)
def test_a_task_is_held_while_a_lost_worker_is_about_to_commit_and_then_its_files_are_suspect_as_well(
    task: Task,
) -> None:
    """Its transaction has begun under the lease, and ends after another worker has found that the lease ran out."""
    grant, item = take(task, "lost", now=T0), Item.objects.get(task=task)
    has_written, has_asked = threading.Event(), threading.Event()

    def write() -> None:
        with leases.hold(task.pk, grant.epoch, T0):
            scan_results.add_found(task.pk, grant.epoch, item.pk, [FoundFile("/from", "/to", 1, None)], T0)
            has_written.set()
            assert has_asked.wait(30)

    def take_over() -> Grant | LeaseRefusal:
        assert has_written.wait(30)
        try:
            return acquire(task.pk, "heir", now=T0 + TTL)
        finally:
            has_asked.set()

    assert all_at_once([write, take_over]) == [None, LeaseRefusal.HELD]
    heir = acquire(task.pk, "heir", now=T0 + TTL)
    assert isinstance(heir, Grant)
    assert heir.spec.suspect_up_to == File.objects.get(task=task).pk


def test_the_wait_is_bounded_however_often_workers_are_lost() -> None:
    assert losses.delay(2**31 - 1) == losses.LONGEST_DELAY
    assert [losses.delay(number).total_seconds() for number in (0, 1, 2, 3)] == [0, 0, 0, 10]


def test_progress_of_any_size_is_a_number_of_the_database() -> None:
    assert losses.progress(Task(bytes_transferred=2**63 - 1, bytes_checksummed=2**63 - 1)) == 2**63 - 1
