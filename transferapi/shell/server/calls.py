"""Calls of the services in a bounded number of threads, each with a connection of the database while it has work.

Threads of sessions never touch the database: a connected session holds no connection. A thread without work for
`IDLE_SECONDS` ends.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import close_old_connections, connections

from endpoints.error_meanings import Unavailable

T = TypeVar("T")
Work = tuple[Future[Any], Callable[[], Any]]
IDLE_SECONDS = 30.0
_BUSY = "The service is busy; try again"


def _on_a_connection(function: Callable[[], T]) -> T:
    """Another thread has the connection before the caller has the result."""
    try:
        return function()
    finally:
        close_old_connections()


class Calls:
    """threads: calls at a time; of_owner: those of one owner; turn_seconds: how long a call waits for its turn."""

    def __init__(self, threads: int, of_owner: int, turn_seconds: float, name: str = "calls") -> None:
        self._threads, self._of_owner, self._turn_seconds, self._name = threads, of_owner, turn_seconds, name
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._turns = threading.Condition()
        self._running: Counter[object] = Counter()
        #: Threads that exist: at least as many as calls that run.
        self._started: set[threading.Thread] = set()

    def call(self, owner: object, function: Callable[[], T]) -> T:
        """Run `function` in a thread of the pool, and wait for its result. Raises Unavailable, and what it raises."""
        if not self._begin(owner):
            raise Unavailable(_BUSY)
        try:
            future: Future[T] = Future()
            self._work.put((future, function))
            return future.result()
        finally:
            self._end(owner)

    def close(self) -> None:
        """Let the threads end, with their connections of the database, after the calls that run. No call may follow."""
        with self._turns:
            threads = list(self._started)
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _begin(self, owner: object) -> bool:
        """Wait for the turn of this owner; False: the time is over."""
        with self._turns:
            if not self._turns.wait_for(lambda: self._has_room(owner), self._turn_seconds):
                return False
            if self._running.total() >= len(self._started):
                self._start()
            self._running[owner] += 1
            return True

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._started.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._started.discard(thread)
            raise Unavailable(_BUSY) from None

    def _has_room(self, owner: object) -> bool:
        return self._running[owner] < self._of_owner and self._running.total() < self._threads

    def _end(self, owner: object) -> None:
        with self._turns:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            self._turns.notify_all()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            future, function = item
            try:
                future.set_result(_on_a_connection(function))
            except BaseException as error:
                future.set_exception(error)
            # Neither the result nor the error may stay alive until the next call.
            del item, future, function
        connections.close_all()

    def _next(self) -> Work | None:
        """The next call; None if there was none for a while, or no more will come, and this thread ends."""
        while True:
            try:
                return self._work.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._turns:
                    # A call that has begun since then relies on this thread.
                    if self._running.total() < len(self._started):
                        self._started.discard(threading.current_thread())
                        return None
