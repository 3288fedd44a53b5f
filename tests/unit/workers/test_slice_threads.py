"""The places of a worker for slices: threads of Celery and threads of its own take from one number."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from workers.slices.threads import SliceThreads

PLACES = 3


class World:
    """Slices that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.most = self.now = self.swept = 0
        self.end = threading.Event()
        self._lock = threading.Lock()
        self.slices = SliceThreads(self._work, self._sweep)

    def _work(self, task_id: str) -> bool:
        with self._lock:
            self.begun.append(task_id)
            self.now += 1
            self.most = max(self.most, self.now)
        assert self.end.wait(60)
        with self._lock:
            self.now -= 1
        return True

    def _sweep(self) -> None:
        with self._lock:
            self.swept += 1

    def by_message(self) -> threading.Thread:
        thread = threading.Thread(target=self.slices.run, args=(str(uuid.uuid4()),), daemon=True)
        thread.start()
        return thread


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.end.set()
    made.slices.stop()
    made.slices.join()


def ids(number: int) -> list[uuid.UUID]:
    return [uuid.uuid4() for _ in range(number)]


def test_without_a_worker_messages_have_no_bound_and_nothing_is_started_here(world: World) -> None:
    handed = ids(3)
    assert world.slices.hand_over(handed) == handed
    messages = [world.by_message() for _ in range(2 * PLACES)]
    eventually(lambda: world.now == 2 * PLACES)
    world.end.set()
    for one in messages:
        one.join(30)
    assert len(world.begun) == 2 * PLACES


def test_tasks_are_started_in_their_order_while_there_are_places(world: World) -> None:
    world.slices.open(PLACES, lambda: False)
    found = ids(10)
    assert world.slices.hand_over(found) == found[PLACES:]
    # A later sweep finds those whose lease is not written yet, too.
    assert world.slices.hand_over(found) == found
    eventually(lambda: world.now == PLACES)
    assert sorted(world.begun) == sorted(map(str, found[:PLACES]))
    world.end.set()
    eventually(lambda: world.swept == PLACES)
    world.slices.hand_over(found[PLACES:])
    eventually(lambda: world.swept == 2 * PLACES)
    assert world.most == PLACES


def test_messages_and_handed_tasks_together_take_no_more_places(world: World) -> None:
    world.slices.open(PLACES, lambda: True)
    first = world.by_message()
    eventually(lambda: world.now == 1)
    world.slices.hand_over(ids(10))
    eventually(lambda: world.now == PLACES)
    # Redis is back, while the slices of the outage go on: messages wait in Celery's threads for a place.
    waiting = [world.by_message() for _ in range(PLACES)]
    world.end.set()
    for one in (first, *waiting):
        one.join(30)
    eventually(lambda: len(world.begun) == 2 * PLACES)
    assert world.most == PLACES


def test_a_worker_that_stops_starts_nothing_and_waits_for_its_slices(world: World) -> None:
    world.slices.open(PLACES, lambda: False)
    world.slices.hand_over(ids(PLACES))
    eventually(lambda: world.now == PLACES)
    waiting = world.by_message()
    world.slices.stop()
    waiting.join(30)
    assert not waiting.is_alive()
    world.slices.hand_over(ids(1))
    threading.Timer(0.05, world.end.set).start()
    world.slices.join()
    assert (world.now, len(world.begun)) == (0, PLACES)


def test_a_slice_that_fails_is_logged_and_gives_its_place_back(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def fail(task_id: str) -> bool:
        failed.set()
        raise ZeroDivisionError

    slices = SliceThreads(fail, lambda: None)
    slices.open(1, lambda: False)
    for task_id in ids(2):
        failed.clear()
        while not failed.wait(0.01):
            slices.hand_over([task_id])
    slices.stop()
    slices.join()
    assert "failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
