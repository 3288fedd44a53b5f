"""States move once, with their event, or not at all; what users ask of a task; what the database itself refuses."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, later, submit, submit_delete, take
from tests.refusals import raises_refusal
from transferapi.tasks import moves, queries
from transferapi.tasks.errors import TASK_COMPLETE, RequestError, StaleStateError, TaskNotFoundError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Event, File, Item, Lease, Task
from transferapi.tasks.moves import FAILED, QUEUED, RUNNING, SUCCEEDED, SUSPENDED, CancelResult
from transferapi.tasks.states import MOVES
from transferapi.tasks.worker import leases, slice_end

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
STATES = [QUEUED, RUNNING, SUSPENDED, SUCCEEDED, FAILED]


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


def force(task: Task, state: moves.State) -> None:
    """Put a task into a state, past the table."""
    done = state in (SUCCEEDED, FAILED)
    Task.objects.filter(pk=task.pk).update(
        status=state[0],
        phase=state[1],
        completion_time=NOW if done else None,
        fatal_error_code="TEST" if state == FAILED else None,
    )


def state(task: Task) -> moves.State:
    return moves.state_of(Task.objects.get(pk=task.pk))


@pytest.mark.parametrize(("old", "new"), [*itertools.product(STATES, STATES)])
def test_every_move_is_as_the_table_says_and_has_its_event(task: Task, old: moves.State, new: moves.State) -> None:
    force(task, old)
    changes: dict[str, Any] = {"fatal_error_code": "TEST"} if new == FAILED else {}

    def move() -> None:
        moves.move(task.pk, old, new, now=NOW, event=NewEvent("TOLD", "it"), changes=changes)

    if new in MOVES[old]:
        move()
        assert state(task) == new
        assert Event.objects.filter(task=task, code="TOLD").count() == 1
    else:
        with pytest.raises(ValueError):
            move()
        assert state(task) == old
        assert not Event.objects.filter(task=task, code="TOLD").exists()


def test_a_move_from_a_state_that_is_not_there_writes_nothing(task: Task) -> None:
    with pytest.raises(StaleStateError) as stale:
        moves.move(task.pk, RUNNING, SUCCEEDED, now=NOW, event=NewEvent("TOLD", "it"), changes={"files": 5})
    assert stale.value.args == (task.pk, RUNNING)
    assert (state(task), Task.objects.get(pk=task.pk).files) == (QUEUED, 0)
    assert not Event.objects.filter(code="TOLD").exists()


@pytest.mark.django_db(transaction=True)
def test_of_many_moves_at_once_one_is_made(task: Task) -> None:
    def move() -> None:
        moves.move(task.pk, QUEUED, RUNNING, now=NOW, event=NewEvent("TOLD", "it"))

    results = all_at_once([move] * 6)
    assert results.count(None) == 1
    assert sum(isinstance(result, StaleStateError) for result in results) == 5
    assert Event.objects.filter(code="TOLD").count() == 1


def test_a_queued_task_is_canceled_at_once(alice: User, task: Task) -> None:
    assert moves.cancel(alice, task.pk) is CancelResult.CANCELED
    found = queries.get(alice, task.pk)
    assert (found.status, found.fatal_error_code) == ("FAILED", "CANCELED")
    assert found.completion_time is not None
    assert [event.code for event in queries.events(alice, task.pk).rows] == ["CANCELED", "SUBMITTED"]
    assert moves.cancel(alice, task.pk) is CancelResult.COMPLETE
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE


def test_a_running_task_learns_of_its_cancel_by_its_heartbeat(alice: User, task: Task) -> None:
    grant = take(task)
    assert not leases.heartbeat(task.pk, grant.epoch).cancel_requested
    assert moves.cancel(alice, task.pk) is CancelResult.ACCEPTED
    assert moves.cancel(alice, task.pk) is CancelResult.ACCEPTED
    assert leases.heartbeat(task.pk, grant.epoch).cancel_requested
    assert state(task) == RUNNING
    slice_end.fail(task.pk, grant.epoch, "CANCELED", "canceled")
    assert state(task) == FAILED


def test_a_cancel_that_comes_while_the_worker_gives_the_task_back_is_not_lost(alice: User, task: Task) -> None:
    grant = take(task)
    moves.cancel(alice, task.pk)
    slice_end.release(task.pk, grant.epoch, later(60))
    assert state(task) == FAILED
    assert queries.get(alice, task.pk).fatal_error_code == "CANCELED"


@pytest.mark.django_db(transaction=True)
def test_a_cancel_and_a_release_at_once_end_the_task(alice: User, task: Task) -> None:
    for _ in range(10):
        force(task, QUEUED)
        Task.objects.filter(pk=task.pk).update(cancel_requested_at=None)
        grant = take(task)
        results = all_at_once([
            lambda: moves.cancel(alice, task.pk),
            partial(slice_end.release, task.pk, grant.epoch, datetime.now(UTC)),
        ])  # fmt: skip
        assert not [result for result in results if isinstance(result, Exception)]
        assert state(task) == FAILED


def test_a_suspended_task_is_canceled_at_once(alice: User, task: Task) -> None:
    force(task, SUSPENDED)
    assert moves.cancel(alice, task.pk) is CancelResult.CANCELED


def test_for_others_the_task_does_not_exist(charlie: User, task: Task) -> None:
    for action in (lambda: moves.cancel(charlie, task.pk), lambda: moves.update(charlie, task.pk, label="x")):
        with pytest.raises(TaskNotFoundError):
            action()
    assert (state(task), Task.objects.get(pk=task.pk).label) == (QUEUED, None)


def test_label_and_deadline_can_be_changed_until_the_task_is_done(alice: User, task: Task) -> None:
    deadline = later(3600)
    moves.update(alice, task.pk, label="new", deadline=deadline)
    found = queries.get(alice, task.pk)
    assert (found.label, found.deadline, found.deadline_is_fixed) == ("new", deadline, True)
    for bad in ({"label": "a\nb"}, {"deadline": later(-1)}):
        with pytest.raises(RequestError):
            moves.update(alice, task.pk, **bad)
    moves.cancel(alice, task.pk)
    with raises_refusal(TASK_COMPLETE):
        moves.update(alice, task.pk, label="too late")
    assert queries.get(alice, task.pk).label == "new"


def test_tasks_that_nobody_works_on_end_at_their_deadline(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    queued, suspended, running, young = (submit(alice, ep1, ep2, deadline=later(60)) for _ in range(4))
    force(suspended, SUSPENDED)
    take(running)
    moves.update(alice, young.pk, deadline=later(600))
    assert moves.expire_overdue() == 0
    assert moves.expire_overdue(later(61)) == 2
    assert [state(task) for task in (queued, suspended, running, young)] == [FAILED, FAILED, RUNNING, QUEUED]
    assert queries.get(alice, queued.pk).fatal_error_code == "EXPIRED"


def test_a_suspended_task_goes_on_when_it_is_resumed(alice: User, charlie: User, task: Task) -> None:
    force(task, SUSPENDED)
    with pytest.raises(TaskNotFoundError):
        moves.resume(charlie, task.pk)
    assert moves.resume(alice, task.pk)
    assert not moves.resume(alice, task.pk)
    assert state(task) == QUEUED
    take(task)


def test_the_database_itself_refuses_what_the_code_should_never_write(alice: User, ep1: Endpoint, task: Task) -> None:
    grant = take(task)
    item = Item.objects.get(task=task)
    mine = Task.objects.filter(pk=task.pk)
    delete = Task.objects.filter(pk=submit_delete(alice, ep1).pk)
    file = {"task": task, "item": item, "source_path": "/a", "key": b"k" * 16}
    now = datetime.now(UTC)
    bad = [
        lambda: mine.update(status="SUCCEEDED"),
        lambda: mine.update(phase="done"),
        lambda: mine.update(status="INACTIVE"),
        lambda: mine.update(status="FAILED", phase="done", fatal_error_code="X"),
        lambda: mine.update(status="FAILED", phase="done", completion_time=now),
        lambda: mine.update(fatal_error_code="X"),
        lambda: mine.update(status="SUCCEEDED", phase="done", completion_time=now, files=1),
        lambda: mine.update(completion_time=now),
        lambda: mine.update(destination=None),
        lambda: delete.update(destination=F("source")),
        lambda: delete.update(submission_id=mine.get().submission_id),
        lambda: Item.objects.create(task=task, position=0, source_path="/x"),
        lambda: File.objects.create(**{**file, "key": b"short"}),
        lambda: File.objects.create(**file, size=-1),
        lambda: File.objects.create(**file, state=1),
        lambda: File.objects.create(**file, settled_at=now),
        lambda: File.objects.create(**file, state=3, settled_at=now),
        lambda: [File.objects.create(**file) for _ in range(2)],
        lambda: Lease.objects.filter(pk=task.pk).update(expires_at=None),
        lambda: Lease.objects.filter(pk=task.pk).update(worker=""),
        lambda: Lease.objects.filter(pk=task.pk).update(sessions=0),
    ]
    for write in bad:
        with pytest.raises(IntegrityError), transaction.atomic():
            write()
    leases.heartbeat(task.pk, grant.epoch)
    assert mine.filter(request_time__gt=now - timedelta(minutes=5)).exists()
