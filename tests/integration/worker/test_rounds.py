"""Periodic jobs: any worker does them, and no particular worker or other process is needed for them."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from deploy.stack.child import spawn
from deploy.stack.redis import Redis
from endpoints import registry
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import RecoveryRequest, User
from tests.integration.cast import all_at_once, make_user, submit
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.tasks import maintenance
from transferapi.tasks.models import Event, Lease, Mail, Round, Task, WorkerProcess
from transferapi.tasks.upkeep import rounds
from transferapi.tasks.upkeep.rounds import Interval, Work
from transferapi.tasks.worker import leases
from workers import runtime
from workers.rounds import IDLE_SECONDS, JOBS, POLL_SECONDS, SOON, SPREAD, Job, Ticker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("loopback_opened")]

INTERVALS = {job.name: job.interval for job in JOBS}


def put_off(seconds: float) -> None:
    """Move the times of the next rounds by this number of seconds."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tasks_round SET next_at = next_at + make_interval(secs => %s)", [seconds])


def test_of_many_workers_that_look_at_one_time_one_does_a_round() -> None:
    wanted = {"sweep": Interval(600.0), "tidy": Interval(600.0)}
    rounds.poll({"other": Interval(600.0)})
    for _ in range(2):
        claimed = all_at_once([lambda: rounds.poll(wanted).due] * 8)
        # A worker skips a row that another one has locked: at worst the job is claimed at the next look.
        counted = Counter(name for names in [*claimed, rounds.poll(wanted).due] for name in names)
        assert counted == {"sweep": 1, "tidy": 1}
        assert rounds.poll(wanted).due == []
        put_off(-601)
    assert rounds.poll({"other": Interval(600.0)}).due == ["other"]


def test_a_clock_that_was_put_back_stops_no_round() -> None:
    rounds.poll({"sweep": Interval(2.0)})
    assert rounds.poll({"sweep": Interval(2.0)}).due == ["sweep"]
    put_off(3600)
    assert rounds.poll({"sweep": Interval(2.0)}).due == ["sweep"]
    assert rounds.poll({"sweep": Interval(2.0)}).due == []


# ---- two real workers


@pytest.fixture
def worker(database_url: str, redis_server: Redis, tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Start a worker process, as compose does; its pid."""
    given = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_ALLOW_TARGETS": "127.0.0.1",
        "WAYBILL_WORKER_THREADS": "2",
    }
    words = [sys.executable, "-m", "deploy.cli", "run", "worker"]
    with ExitStack() as running:

        def start() -> int:
            name = uuid.uuid4().hex
            environment = {**os.environ, **given}
            process = spawn(words, log=tmp_path / name, env=environment, cwd=CHECKOUT)
            running.callback(process.wait)
            running.callback(process.kill)
            return process.pid

        yield start


@contextmanager
def silence() -> Iterator[int]:
    """The port of a server that takes connections and says nothing: a task with it is held, and does nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def task_between(user: User, port: int) -> Task:
    spec = ServerSpec("127.0.0.1", port, "ftp")
    one, two = (registry.create(user, {"name": name, "display_name": name}, [spec]) for name in ("one", "two"))
    return submit(user, one, two)


def holder(task: Task) -> int:
    """The pid of the worker that holds the task; 0: none."""
    name = Lease.objects.filter(pk=task.pk).values_list("worker", flat=True).first()
    return int(name.rpartition(":")[2]) if name else 0


@pytest.mark.timeout(180)
def test_a_task_whose_worker_stops_or_is_killed_goes_on_in_another_one_alone(
    worker: Callable[[], int], tmp_path: Path
) -> None:
    """No message of its submission reaches them, and there is no process besides them."""
    with silence() as port:
        task = task_between(make_user("alice"), port)
        pids = [worker(), worker()]
        eventually(lambda: holder(task))
        stopped, epoch = holder(task), Lease.objects.get(pk=task.pk).epoch
        assert stopped in pids
        os.kill(stopped, signal.SIGTERM)
        eventually(lambda: holder(task) not in (0, stopped))
        # It was given back: nothing of it is suspect. Celery's own set-up of logging would drop the line.
        assert not Event.objects.filter(task=task, code="RESUMED").exists()
        ended = f"INFO workers.runtime: slice {epoch} ended: released"
        eventually(lambda: [log for log in tmp_path.iterdir() if log.is_file() and ended in log.read_text()])
        pids.append(worker())
        killed = holder(task)
        os.kill(killed, signal.SIGKILL)
        eventually(lambda: holder(task) not in (0, stopped, killed))
        assert holder(task) == pids[2]
        resumed = Event.objects.get(task=task, code="RESUMED")
        assert "another one goes on" in resumed.description
        assert leases.acquire(task.pk, "a third one") is leases.LeaseRefusal.HELD


@pytest.mark.timeout(120)
def test_two_workers_without_a_task_ask_the_database_for_little(worker: Callable[[], int]) -> None:
    """Each polled twice a second, with several statements, and did its jobs every 2 seconds: 30 in a second."""
    pids = {worker(), worker()}
    eventually(lambda: {int(one.name.rpartition(":")[2]) for one in WorkerProcess.objects.all()} == pids)
    # The first round of each job is over.
    eventually(lambda: Round.objects.filter(next_at__gt=Now()).count() == len(INTERVALS))
    begun = statements()
    time.sleep(12)
    # With what the first rounds leave to do.
    assert 4 < statements() - begun < 150


def statements() -> int:
    """Those of other sessions so far: each is a transaction of its own. A session writes its count after a second."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_new_job_is_one_declaration(client: Client) -> None:
    """Its row, its work, its interval and its delay in the metrics come from it alone."""
    done = threading.Event()
    ticker = Ticker([*JOBS, Job("a new one", Interval(600.0), [done.set])])
    ticker.run_due()
    ticker.run_due()
    assert done.wait(30)
    ticker.stop()
    row = Round.objects.get(name="a new one")
    assert timedelta(seconds=590) < row.next_at - timezone.now() < timedelta(seconds=610)
    assert 'waybill_round_overdue_seconds{round="a new one"} 0' in client.get("/metrics").content.decode()


def test_the_names_of_jobs_differ_and_fit_into_their_column() -> None:
    assert len(INTERVALS) == len(JOBS)
    assert all(len(name) <= 32 for name in INTERVALS)


def test_a_job_that_hangs_delays_no_other_and_is_left_to_other_workers() -> None:
    release, others = threading.Event(), [threading.Event() for _ in JOBS]
    ticker = Ticker(
        [
            Job("hangs", Interval(0.0), [lambda: release.wait(60)]),
            *(Job(job.name, Interval(0.0), [done.set]) for job, done in zip(JOBS, others, strict=True)),
        ]
    )
    try:
        ticker.run_due()
        ticker.run_due()
        assert all(done.wait(30) for done in others)
        assert "hangs" not in {job.name for job in ticker.idle_jobs()}
        assert rounds.poll({"hangs": Interval(0.0)}).due == ["hangs"], "another worker gets it"
    finally:
        release.set()
        ticker.stop()


def test_a_step_that_fails_does_not_keep_the_next_ones_from_being_done(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def fail() -> None:
        raise ValueError("with private data")

    ticker = Ticker([Job("of two steps", Interval(600.0), [fail, done.set])])
    ticker.run_due()
    ticker.run_due()
    assert done.wait(30)
    ticker.stop()
    assert "the periodic job of two steps failed: ValueError" in caplog.text
    assert "private" not in caplog.text


def test_jobs_that_move_tasks_rest_while_the_maintenance_mode_holds_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    maintenance.turn_on("for an upgrade", hold=True)
    moved, other = threading.Event(), threading.Event()
    ticker = Ticker(
        [
            Job("moves tasks", Interval(600.0), [moved.set], while_held=False),
            Job("moves none", Interval(600.0), [other.set]),
        ]
    )
    try:
        ticker.run_due()
        ticker.run_due()
        eventually(lambda: len(ticker.idle_jobs()) == 2)
        ticker.stop()
        assert (moved.is_set(), other.is_set()) == (False, True)
    finally:
        maintenance.turn_off()
        runtime.hold(held=False)
    assert {job.name for job in JOBS if not job.while_held} == {"sweep", "pauses", "uploads"}


def test_the_round_of_a_job_that_no_worker_has_any_more_is_deleted() -> None:
    names = ("sweep", "of a newer version", "of an older version")
    for _ in range(2):
        rounds.poll({name: Interval(2.0) for name in names})
    for name in ("sweep", "of an older version"):
        Round.objects.filter(name=name).update(next_at=Now() - timedelta(hours=1))
    rounds.forget_abandoned(INTERVALS)
    assert set(Round.objects.values_list("name", flat=True)) == {"sweep", "of a newer version"}


def test_a_worker_polls_when_the_next_sweep_is_due() -> None:
    """No job is due, and the sweep will be in a quarter of a second."""
    for _ in range(2):
        rounds.poll(INTERVALS)
    ticker = Ticker()
    ticker.run_due()
    assert ticker.wait > POLL_SECONDS
    Round.objects.filter(name="sweep").update(next_at=Now() + timedelta(seconds=0.25))
    ticker.run_due()
    ticker.stop()
    assert ticker.wait < 0.25 + SOON


def test_the_next_sweep_comes_when_a_lost_workers_lease_ends(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    assert isinstance(leases.acquire(task.pk, "lost", ttl=timedelta(minutes=5)), leases.Grant)
    rounds.poll({"sweep": Interval(600.0)})
    assert rounds.poll({"sweep": Interval(600.0)}).due == ["sweep"]
    rounds.sweep_when_a_lease_ends()
    next_at, lease = Round.objects.get(name="sweep").next_at, Lease.objects.get(pk=task.pk)
    assert next_at == lease.expires_at
    put_off(-600)
    early = Round.objects.get(name="sweep").next_at
    rounds.sweep_when_a_lease_ends()
    assert Round.objects.get(name="sweep").next_at == early, "a sweep that is due sooner stays so"


def test_a_worker_polls_rarely_while_there_is_no_task_and_often_from_the_next_poll_on(
    alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    """The sweep that was put off comes at the poll that sees the task, whose message may be lost."""
    for _ in range(2):
        rounds.poll(INTERVALS)
    ticker = Ticker()
    ticker.run_due()
    assert IDLE_SECONDS * (1 - SPREAD) <= ticker.wait <= IDLE_SECONDS * (1 + SPREAD) < leases.TTL.total_seconds()
    found = rounds.poll(INTERVALS)
    assert (found.due, found.tasks) == ([], False)
    assert found.sweep_in is not None
    assert found.sweep_in > INTERVALS["sweep"].every + SPREAD
    submit(alice, ep1, ep2)
    found = rounds.poll(INTERVALS)
    assert (set(found.due), found.tasks) == ({"sweep", "pauses", "renew", "tidy"}, True)
    assert found.sweep_in is not None
    assert found.sweep_in < 2
    ticker.wait = POLL_SECONDS
    ticker.run_due()
    ticker.stop()
    assert ticker.wait <= POLL_SECONDS


def test_a_worker_that_no_message_reaches_polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        rounds.poll(INTERVALS)
    monkeypatch.setattr(runtime, "hears", lambda: False)
    ticker = Ticker()
    ticker.run_due()
    ticker.stop()
    assert ticker.wait == POLL_SECONDS


@pytest.mark.parametrize("work", Work)
def test_each_question_about_work_can_be_asked(work: Work) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {work.value}")
        assert cursor.fetchone() == (False,)


def test_a_job_with_work_is_due_at_the_next_poll(alice: User) -> None:
    names = ("mails", "webhooks", "timers")
    wanted = {name: INTERVALS[name] for name in names}
    for _ in range(2):
        rounds.poll(wanted)
    assert rounds.poll(wanted).due == []
    Mail.objects.create(user=alice, key="one", subject="", body="", created_at=Now(), next_try_at=Now())
    assert rounds.poll(wanted).due == ["mails"]
    Mail.objects.all().delete()
    RecoveryRequest.objects.create(name="alice", asked_at=Now())
    put_off(-60)
    assert "mails" in rounds.poll(wanted).due
    assert "mails" not in rounds.poll(wanted).due
