"""The measurements of a pair of endpoints that slices store for later tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, submit_delete, take
from tests.store_connections import close_connections
from transferapi.tasks.models import PathMemory, Run, Task
from transferapi.tasks.records import SliceMeasurement
from transferapi.tasks.worker import measurements
from workers.store import PostgresTaskStore

pytestmark = pytest.mark.django_db

FACTS = SliceMeasurement(2.5, 10, 1000, 1, 0.06, 4, 2, 20, True)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


def runs_between(source: Endpoint, destination: Endpoint) -> list[Run]:
    return list(Run.objects.filter(source=source, destination=destination).order_by("ended_at"))


def measurement(run: Run) -> SliceMeasurement:
    return SliceMeasurement(**{field.name: getattr(run, field.name) for field in fields(SliceMeasurement)})


def test_a_run_is_kept_with_its_pair_of_endpoints(task: Task, ep1: Endpoint, ep2: Endpoint) -> None:
    measurements.learn(task.pk, None, FACTS)
    (run,) = runs_between(ep1, ep2)
    assert measurement(run) == FACTS
    assert run.task_id == task.pk
    assert not PathMemory.objects.exists()
    assert runs_between(ep2, ep1) == []


def test_the_next_task_of_the_pair_gets_what_the_last_one_learned(
    alice: User, ep1: Endpoint, ep2: Endpoint, task: Task
) -> None:
    assert take(task).spec.knowledge == {}
    measurements.learn(task.pk, {"lanes": 8, "old": True}, None)
    measurements.learn(task.pk, {"lanes": 16}, None)
    assert PathMemory.objects.count() == 1
    assert not Run.objects.exists()
    assert take(submit(alice, ep1, ep2)).spec.knowledge == {"lanes": 16}
    assert take(submit(alice, ep2, ep1)).spec.knowledge == {}


def test_a_delete_has_no_pair_to_learn_of(alice: User, ep1: Endpoint) -> None:
    task = submit_delete(alice, ep1, "/old")
    measurements.learn(task.pk, {"lanes": 1}, FACTS)
    assert not Run.objects.exists()
    assert not PathMemory.objects.exists()


def test_the_latest_runs_of_a_pair_are_kept_and_those_of_others_left_alone(
    alice: User, ep1: Endpoint, ep2: Endpoint, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "RUNS_KEPT", 3)
    other = submit(alice, ep2, ep1)
    for this in (other, task):
        for number in range(3 if this is other else 7):
            measurements.learn(this.pk, None, replace(FACTS, files=number), later(number))
    assert [run.files for run in runs_between(ep1, ep2)] == [4, 5, 6]
    assert [run.files for run in runs_between(ep2, ep1)] == [0, 1, 2]


@pytest.fixture
def threads(transactional_db: None) -> Iterator[None]:
    yield
    close_connections()


@pytest.mark.django_db(transaction=True)
def test_the_engine_learns_through_its_port(threads: None, task: Task) -> None:
    grant = take(task)
    asyncio.run(PostgresTaskStore(grant).learn({"lanes": 4}, replace(FACTS, round_trip=None)))
    assert measurement(Run.objects.get()) == replace(FACTS, round_trip=None)
    assert PathMemory.objects.get().knowledge == {"lanes": 4}
