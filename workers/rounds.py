"""The periodic jobs of all workers: each worker runs those that are due, so that no special process is needed.

They use neither Celery's threads, which may all be busy with tasks, nor messages, because Redis may be down.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from transferapi.outages import watchdog
from transferapi.outages.log_filter import is_told
from transferapi.tasks import maintenance
from transferapi.tasks.upkeep import rounds, tallies, worker_processes
from transferapi.tasks.upkeep.watch import Watch

from . import runtime, wall_clock, webhook_sender
from .store import on_a_connection

log = logging.getLogger(__name__)

#: Seconds between two polls of one worker, and their variation, so that workers do not poll at the same time.
POLL_SECONDS, SPREAD = 0.5, 0.2
#: The same where no task is under way and messages reach this worker. Less than a lease: a worker that polls so knows
#: of a task that another one takes before the lease of that one ends.
IDLE_SECONDS = 2.5
#: Seconds after the time of a sweep within which a worker polls for it: a lost worker's tasks wait for no other poll.
SOON = 0.1

#: The work of each job of `rounds.INTERVALS`.
WORK: dict[str, Callable[[], None]] = {
    "sweep": runtime.sweep,
    "pauses": runtime.settle_pauses,
    "renew": runtime.renew,
    "timers": runtime.run_timers,
    "mails": runtime.post,
    "webhooks": webhook_sender.begin_round,
    "tidy": runtime.tidy,
    "give_back": runtime.give_back,
    "uploads": runtime.remove_uploads,
    "tidy_tokens": runtime.tidy_tokens,
    "institutions": runtime.read_institutions,
    "tidy_relays": runtime.tidy_relays,
}


class Ticker:
    """Polls for jobs that are due, from `start` until `stop`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._pool = ThreadPoolExecutor(len(WORK), thread_name_prefix="round")
        self._under_way: dict[str, Future[None]] = {}
        self._report_at = 0.0
        #: Seconds until the next poll.
        self.wait = POLL_SECONDS
        self._watch = Watch("worker")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start no more jobs; running jobs continue to their end."""
        self._stop.set()
        self._pool.shutdown(wait=False)

    def _run(self) -> None:
        while not self._stop.wait(self.wait):
            self.wait = _vary(POLL_SECONDS)
            watchdog.moved("the periodic jobs")
            try:
                on_a_connection(self._report)
                watchdog.moved("the periodic jobs")
                self.run_due()
            except Exception as error:
                # The database is down, or this process is stopping: another worker, or the next poll, runs them.
                if not is_told(error):
                    log.warning("periodic jobs are delayed: %s", type(error).__name__)
        with contextlib.suppress(Exception):
            on_a_connection(lambda: worker_processes.leave(runtime.worker_name()))
            on_a_connection(self._watch.leave)
        with contextlib.suppress(Exception):
            tallies.flush()

    def _report(self) -> None:
        """Write from time to time that this process runs."""
        self._watch.report()
        if time.monotonic() >= self._report_at:
            worker_processes.report(runtime.worker_name(), socket.gethostname(), runtime.gauges())
            self._report_at = time.monotonic() + worker_processes.REPORT_SECONDS

    def run_due(self) -> None:
        """Claim and start the jobs that are due; a job that still runs here is left to other workers. Set `wait`.

        Where the clock of this machine is wrong, none is claimed.
        """
        clock_is_wrong = on_a_connection(wall_clock.is_wrong)
        free = {} if clock_is_wrong else {name: one for name, one in rounds.INTERVALS.items() if self._is_idle(name)}
        found = on_a_connection(partial(rounds.poll, free))
        maintenance.know(found.notice)
        runtime.hold(held=found.notice is not None and found.notice.hold)
        for name in found.due:
            self._under_way[name] = self._pool.submit(self._do, name)
        if not found.tasks and runtime.hears():
            self.wait = _vary(IDLE_SECONDS)
        if found.sweep_in is not None and found.sweep_in > 0.0:
            self.wait = min(self.wait, random.uniform(0, SOON) + found.sweep_in)  # noqa: S311 - no secret

    def _is_idle(self, name: str) -> bool:
        return name not in self._under_way or self._under_way[name].done()

    def _do(self, name: str) -> None:
        try:
            WORK[name]()
        except Exception as error:
            # The text of the error may contain private data.
            if not is_told(error):
                log.warning("the periodic job %s failed: %s", name, type(error).__name__)


def _vary(seconds: float) -> float:
    return seconds * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - no secret
