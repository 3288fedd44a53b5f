"""The rate of a task over its time, from the arrivals of its files."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit
from transferapi.tasks import events, timeline
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import File, Item, Task
from transferapi.tasks.states import FileState

pytestmark = pytest.mark.django_db

START = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    """A task of 60 seconds with two lanes that have begun after 6 seconds."""
    task = submit(alice, ep1, ep2)
    plan = {"concurrency": 2, "parallelism": 1, "pipelining": 1, "reason": "two"}
    events.append(task.pk, [NewEvent("STARTED", "Begun.", plan)], START + timedelta(seconds=6))
    Task.objects.filter(pk=task.pk).update(request_time=START, files_transferred=2)
    task.refresh_from_db()
    return task


def arrive(task: Task, size: int, seconds: float) -> None:
    path = f"/{uuid.uuid4()}"
    File.objects.create(
        task=task, item=Item.objects.get(task=task), source_path=path, destination_path=path, key=uuid.uuid4().bytes,
        size=size, state=FileState.DONE, settled_at=START + timedelta(seconds=seconds),
    )  # fmt: skip


def rates(task: Task) -> list[float]:
    return [point.rate for point in timeline.rates(task, START + timedelta(seconds=60))]


def test_a_large_file_is_spread_over_the_time_that_it_took(task: Task) -> None:
    for _ in range(2):
        arrive(task, 54_000, 60)
    found = rates(task)
    assert found[:6] == [0] * 6
    assert found[6:] == pytest.approx([2000] * 54)


def test_a_file_begins_when_a_lane_is_free(task: Task) -> None:
    arrive(task, 24_000, 30)
    arrive(task, 54_000, 60)
    arrive(task, 15_000, 45)
    found = rates(task)
    # The file of 45 s is the second to arrive, so it has begun at first; the last one begins with the first arrival.
    assert sum(found) == pytest.approx(24_000 + 54_000 + 15_000)
    assert max(found) < 3000


def test_many_small_files_count_where_they_arrive(task: Task) -> None:
    for at in range(10, 60):
        arrive(task, 1000, at)
    found = rates(task)
    assert sum(found) == pytest.approx(50_000)
    assert found[30] == pytest.approx(1000, rel=0.01)
    assert max(found) < 1600


def test_a_file_that_arrives_at_once_or_after_the_end_is_not_lost(task: Task) -> None:
    arrive(task, 1000, 6)
    arrive(task, 1000, 61)
    assert sum(rates(task)) == pytest.approx(2000)
