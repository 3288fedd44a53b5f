"""The periodic jobs of all workers: each worker runs those that are due, so that no special process is needed.

They use neither Celery's threads, which may all be busy with tasks, nor messages, because Redis may be down.

A new job is one more `Job` in `JOBS`, and no other line changes: its row is written by the first worker that polls, and
its delay is in `/metrics`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from endpoints.addresses import provider_sites
from endpoints.connect import presence
from endpoints.files import leftovers
from identity import audit_export, mail_addresses, password_recovery, sessions, sign_up
from identity.federation import saml_directory, saml_sources
from identity.provider import cleanup as provider_cleanup
from identity.vault import store as vault
from transferapi.outages import watchdog
from transferapi.outages.log_filter import is_told
from transferapi.tasks import ended_accounts, endpoint_failures, maintenance
from transferapi.tasks.managers import pauses
from transferapi.tasks.notify import mail_sender, webhooks
from transferapi.tasks.notify.mails import sign_up as sign_up_mails
from transferapi.tasks.upkeep import old_records, retention, rounds, tallies, worker_processes
from transferapi.tasks.upkeep.rounds import Interval, Work
from transferapi.tasks.upkeep.watch import Watch
from transferapi.tasks.worker import host_keys, renewal
from transferapi.timers import running as timers

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
#: Timers that are run in one round; the next round continues.
TIMERS_LIMIT = 200


class Job(NamedTuple):
    """A periodic job.

    name: in the table of rounds, in logs and in `/metrics`; at most 32 characters. steps: called one after another,
    each with this thread's connection to the database; where one fails, the others are called all the same. Each has
    bounds of its own: what it leaves is for the next round. while_held: whether it is done where tasks rest, which is
    while the maintenance mode holds them and when this process stops.
    """

    name: str
    interval: Interval
    steps: Sequence[Callable[[], object]]
    while_held: bool = True


def _read_institutions() -> None:
    """Read the metadata of the institutions by which users sign in; without any, all institutions are forgotten."""
    saml_sources.refresh_all(
        partial(provider_sites.reach, timeout=saml_sources.SECONDS, max_answer=saml_directory.MAX_METADATA)
    )


def _forget_abandoned_rounds() -> None:
    rounds.forget_abandoned(job.name for job in JOBS)


#: All periodic jobs. Intervals and their work: docs/decisions/work-and-messages.md.
JOBS: tuple[Job, ...] = (
    Job("sweep", Interval(2.0, 10.0, Work.TASKS), [runtime.sweep], while_held=False),
    # Not a part of the sweep: a hundred pauses that end take a second.
    Job("pauses", Interval(2.0, 300.0, Work.TASKS), [pauses.settle], while_held=False),
    # Tasks whose missing credential or host key is there now, if the signal was lost.
    Job("renew", Interval(2.0, 300.0, Work.TASKS), [renewal.resume_waiting, host_keys.resume_settled]),
    Job("timers", Interval(5.0, 300.0, Work.TIMERS), [partial(timers.run_due, TIMERS_LIMIT)]),
    Job(
        "mails",
        Interval(3.0, 300.0, Work.MAILS),
        [password_recovery.answer_requests, mail_sender.send_due, sign_up_mails.send_due],
    ),
    Job("webhooks", Interval(2.0, 300.0, Work.DELIVERIES), [webhook_sender.begin_round]),
    Job(
        "tidy",
        Interval(10.0, 120.0, Work.TASKS),
        [
            vault.expire,
            mail_sender.give_up_old,
            mail_sender.forget_old,
            webhooks.forget_old,
            retention.forget_old,
            old_records.delete_tasks,
            sessions.delete_expired,
            password_recovery.delete_expired,
            sign_up.delete_expired,
            mail_addresses.delete_expired,
            audit_export.delete_old,
            ended_accounts.cancel_left_over,
            endpoint_failures.forget_old,
            _forget_abandoned_rounds,
        ],
    ),
    # Rows of ended tasks that nobody can see.
    Job("give_back", Interval(5.0, 300.0, Work.ENDED_TASKS), [retention.give_back]),
    # Leftovers of abandoned uploads on endpoints, whose servers may hang.
    Job("uploads", Interval(30.0), [leftovers.remove_due], while_held=False),
    # Codes, tokens and clients of the OAuth2 server.
    Job("tidy_tokens", Interval(60.0), [provider_cleanup.run]),
    Job("timer_times", Interval(3600.0), [timers.correct_times]),
    Job("institutions", Interval(3600.0), [_read_institutions]),
    # Shares go in one call, and their hosts in the next.
    Job("tidy_endpoints", Interval(3600.0), [old_records.delete_endpoints, old_records.delete_knowledge]),
    # Without an index for it: a table of agents is small.
    Job("tidy_relays", Interval(3600.0), [presence.forget_old]),
)


class Ticker:
    """Polls for jobs that are due, from `start` until `stop`.

    Each job has a thread: one that hangs, as at a mail server, delays no other. A thread has a connection to the
    database only while it works (docs/decisions/outages-and-connections.md).
    """

    def __init__(self, jobs: Sequence[Job] = JOBS) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rounds", daemon=True)
        self._pool = ThreadPoolExecutor(len(jobs), thread_name_prefix="round")
        self._under_way: dict[str, Future[None]] = {}
        self._report_at = 0.0
        #: Seconds until the next poll.
        self.wait = POLL_SECONDS
        self._watch = Watch("worker")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start no more jobs; the running step of each job continues to its end."""
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
        free = [] if clock_is_wrong else self.idle_jobs()
        found = on_a_connection(partial(rounds.poll, {job.name: job.interval for job in free}))
        maintenance.know(found.notice)
        runtime.hold(held=found.notice is not None and found.notice.hold)
        for name in found.due:
            self._under_way[name] = self._pool.submit(self._do, self._jobs[name])
        if not found.tasks and runtime.hears():
            self.wait = _vary(IDLE_SECONDS)
        if found.sweep_in is not None and found.sweep_in > 0.0:
            self.wait = min(self.wait, random.uniform(0, SOON) + found.sweep_in)  # noqa: S311 - no secret

    def idle_jobs(self) -> list[Job]:
        """Those that do not run here."""
        running = {name for name, job in self._under_way.items() if not job.done()}
        return [job for name, job in self._jobs.items() if name not in running]

    def _do(self, job: Job) -> None:
        for step in job.steps:
            if self._stop.is_set() or not (job.while_held or runtime.takes_tasks()):
                return
            try:
                on_a_connection(step)
            except Exception as error:
                # The text of the error may contain private data.
                if not is_told(error):
                    log.warning("the periodic job %s failed: %s", job.name, type(error).__name__)


def _vary(seconds: float) -> float:
    return seconds * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - no secret
