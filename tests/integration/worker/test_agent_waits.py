"""Tasks whose agent is away: one event when it goes, one when it is back, no fault, and at once due when it is back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, take
from transferapi.tasks import doorbell, moves
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.models import Event, Task
from transferapi.tasks.states import Phase
from transferapi.tasks.worker import agent_waits, leases, troubles
from transferapi.tasks.worker.leases import Grant

AWAY = make_fault(Kind.AGENT_AWAY, side=Side.SOURCE)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The tasks that the doorbell rang for."""
    found: list[object] = []
    monkeypatch.setattr(doorbell, "ring", found.extend)
    return found


def wait(grant: Grant, side: Side = Side.SOURCE) -> None:
    agent_waits.wait(grant.task_id, grant.epoch, AWAY.at(side), later(300))


def again(task: Task) -> Grant:
    Task.objects.filter(pk=task.pk).update(next_run_at=later(-1))
    return take(task)


def codes(task: Task) -> list[str]:
    return list(Event.objects.filter(task=task).order_by("id").values_list("code", flat=True))


def test_the_status_names_the_endpoint_and_since_when_and_no_fault_counts(task: Task) -> None:
    before = datetime.now(UTC)

    wait(take(task))

    task.refresh_from_db()
    assert (task.phase, task.nice_status, task.faults) == (Phase.QUEUED, "GC_NOT_CONNECTED", 0)
    words = task.nice_status_details or ""
    assert words.startswith("The computer at the source alice#ep1 is not connected, since ")
    assert f"{before:%Y-%m-%d %H:%M}" in words
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_DUE


def test_it_is_reported_once_however_often_the_task_looks_and_again_when_the_agent_goes_again(task: Task) -> None:
    for _ in range(5):
        wait(again(task))
    assert codes(task) == ["SUBMITTED", "GC_NOT_CONNECTED"]

    grant = again(task)
    assert grant.spec.troubled
    troubles.reached(grant.task_id, grant.epoch, [Side.DESTINATION], lanes=False)
    assert "RESUMED" not in codes(task), "the other endpoint says nothing about this one"
    troubles.reached(grant.task_id, grant.epoch, [Side.SOURCE], lanes=False)
    troubles.reached(grant.task_id, grant.epoch, [Side.SOURCE], lanes=True)
    wait(grant)

    assert codes(task) == ["SUBMITTED", "GC_NOT_CONNECTED", "RESUMED", "GC_NOT_CONNECTED"]
    assert not Event.objects.filter(task=task, is_error=True).exists()


def test_two_agents_that_are_away_are_reported_once_each_whichever_is_looked_for_first(task: Task) -> None:
    for side in (Side.SOURCE, Side.DESTINATION) * 3:
        wait(again(task), side)
    assert codes(task) == ["SUBMITTED", "GC_NOT_CONNECTED", "GC_NOT_CONNECTED"]


def test_another_fault_meanwhile_does_not_make_the_agent_go_twice(task: Task) -> None:
    wait(again(task))
    grant = again(task)
    troubles.endpoint_failed(
        grant.task_id, grant.epoch, make_fault(Kind.CONNECT_FAILED, side=Side.DESTINATION), later(5)
    )
    wait(grant)
    assert codes(task).count("GC_NOT_CONNECTED") == 1


def test_a_task_is_due_at_once_when_its_agent_is_back_and_no_other_task_is(
    alice: User, ep1: Endpoint, ep2: Endpoint, task: Task, rung: list[object]
) -> None:
    other = submit(alice, ep2, ep1)
    for one in (task, other):
        wait(take(one))

    assert agent_waits.wake(ep1.pk) == 2
    assert sorted(map(str, rung)) == sorted([str(task.pk), str(other.pk)])
    assert take(task).epoch == 2

    wait(take(other))
    rung.clear()
    Task.objects.filter(pk=other.pk).update(nice_status="CONNECT_FAILED")
    assert (agent_waits.wake(ep2.pk), rung) == (0, [])


def test_a_task_that_was_canceled_meanwhile_ends_and_one_that_lost_its_lease_writes_nothing(task: Task) -> None:
    grant = take(task)
    moves.cancel(task.owner, task.pk)
    wait(grant)
    task.refresh_from_db()
    assert task.phase == Phase.DONE
    with pytest.raises(LeaseLostError):
        wait(grant)
    assert codes(task).count("GC_NOT_CONNECTED") <= 1
