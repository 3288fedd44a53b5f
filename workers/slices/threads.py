"""The slices of a worker: as many at a time as it has threads, whether a message starts them or the worker itself.

Celery's threads take tasks by messages, which need Redis and may wait behind many others. So a sweep hands the tasks of
a lost worker, and while no message can reach this worker all tasks that it finds, to threads of this worker's own
(docs/decisions/work-and-messages.md).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from transferapi.tasks.doorbell import EXPIRES

log = logging.getLogger(__name__)


class SliceThreads:
    """work: takes the task with this id and works on it for a slice; returns whether it did.

    afterwards: called in the same thread after such a slice, when its place is free for the next one.
    """

    def __init__(self, work: Callable[[str], bool], afterwards: Callable[[], None]) -> None:
        self._work, self._afterwards = work, afterwards
        self._changed = threading.Condition()
        #: The most slices at a time. None until `open` is called: then `run` has no bound, `hand_over` starts nothing.
        self._places: int | None = None
        #: The tasks that have a place; one may be there twice, and its lease then excludes the second one.
        self._under_way: list[str] = []
        self._stopping = False
        #: Whether messages reach this process.
        self.hears: Callable[[], bool] = lambda: True
        self._pool: ThreadPoolExecutor | None = None

    def open(self, places: int, hears: Callable[[], bool]) -> None:
        """Bound the slices, and allow `hand_over`. Call it after the fork."""
        with self._changed:
            self._places, self.hears = places, hears
            self._pool = ThreadPoolExecutor(places, thread_name_prefix="slice")

    def run(self, task_id: str) -> None:
        """A message has come, in a thread of Celery. Waits for a place as long as the message would count."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._has_place(), EXPIRES)
            if self._stopping or not self._has_place():
                return
            self._under_way.append(task_id)
        self._run(task_id)

    def hand_over(self, task_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
        """Start these tasks, in their order, while there are places; does not wait. Return those without a place."""
        left = list(task_ids)
        with self._changed:
            while left and self._pool is not None and not self._stopping and self._has_place():
                task_id = str(left.pop(0))
                if task_id not in self._under_way:
                    self._under_way.append(task_id)
                    self._pool.submit(self._run_alone, task_id)
        return left

    def stop(self) -> None:
        """Start no slice any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self) -> None:
        """After `stop`: wait until the threads of its own have ended their slices."""
        if self._pool is not None:
            self._pool.shutdown()

    def _has_place(self) -> bool:
        return self._places is None or len(self._under_way) < self._places

    def _run(self, task_id: str) -> None:
        """Work on a task that has a place."""
        try:
            worked = self._work(task_id)
        finally:
            with self._changed:
                self._under_way.remove(task_id)
                self._changed.notify()
        if worked:
            self._afterwards()

    def _run_alone(self, task_id: str) -> None:
        """In a thread of its own: log what Celery would log, and keep no connection to the database."""
        try:
            self._run(task_id)
        except Exception:
            log.exception("the slice of task %s failed", task_id)
        finally:
            connection.close()
