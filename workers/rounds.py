"""The rounds of a worker process: every worker asks for those that are due, so that no single process is needed.

They take neither a thread of Celery's, all of which may be busy with tasks, nor a message: Redis may be away.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from transferapi.tasks import rounds
from workers import courier, runtime
from workers.store import on_a_connection

log = logging.getLogger(__name__)

#: Seconds between two looks of one worker, and by how much they differ, so that workers do not look all at once.
LOOK_SECONDS, SPREAD = 0.5, 0.2


class Round(NamedTuple):
    """every: seconds from the beginning of one to the beginning of the next, of all workers together."""

    every: float
    work: Callable[[], None]


ROUNDS = {
    "sweep": Round(2.0, runtime.sweep),
    "renew": Round(2.0, runtime.renew),
    "timers": Round(5.0, runtime.run_timers),
    "mails": Round(3.0, runtime.post),
    "webhooks": Round(2.0, courier.begin_round),
    "tidy": Round(10.0, runtime.tidy),
    "give_back": Round(5.0, runtime.give_back),
    "tidy_tokens": Round(60.0, runtime.tidy_tokens),
}


class Ticker:
    """Looks for rounds that are due, from `start` until `stop`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._pool = ThreadPoolExecutor(len(ROUNDS), thread_name_prefix="round")
        self._under_way: dict[str, Future[None]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Rounds under way go on to their end."""
        self._stop.set()
        self._pool.shutdown(wait=False)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS * random.uniform(1 - SPREAD, 1 + SPREAD)):  # noqa: S311 - no secret
            try:
                self._look()
            except Exception as error:
                # The database is away, or we are being stopped: others look, or we do so again.
                log.warning("rounds are done later: %s", type(error).__name__)

    def _look(self) -> None:
        """One that is still under way here is left to others."""
        idle = {name: one.every for name, one in ROUNDS.items() if self._is_idle(name)}
        for name in on_a_connection(lambda: rounds.claim(idle)):
            self._under_way[name] = self._pool.submit(self._do, name)

    def _is_idle(self, name: str) -> bool:
        return name not in self._under_way or self._under_way[name].done()

    def _do(self, name: str) -> None:
        try:
            ROUNDS[name].work()
        except Exception as error:
            # Its text may hold what is nobody's business.
            log.warning("the round %s failed: %s", name, type(error).__name__)
