"""A worker that stands still in the middle of a transaction: another one gets its task all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, take
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.tasks.models import Lease, Task
from transferapi.tasks.worker.leases import Grant, LeaseRefusal, acquire, heartbeat

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

#: Seconds: the server ends the session after 4 s, and the lock of the next one is waited for at most 15 s.
LONGEST = 10.0


@contextmanager
def frozen(url: str, what: str, task: Task, epoch: int, statements: int, home: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker that has stopped after so many statements of this function."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": url,
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(home),
        "DJANGO_SETTINGS_MODULE": "transferapi.settings",
    }
    words = [sys.executable, "-m", "tests.integration.frozen_worker", what, str(task.pk), str(epoch), str(statements)]
    process = subprocess.Popen(
        words, cwd=CHECKOUT, env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        eventually(lambda: state(process) in "TZ", seconds=90)
        assert state(process) == "T", process.communicate(timeout=30)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def state(process: subprocess.Popen[str]) -> str:
    """T: it is stopped; Z: it has ended (proc(5))."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("what", "statements"),
    [("acquire", 3), ("acquire", 7), ("settle", 1), ("release", 5)],
)
def test_the_task_of_a_worker_that_stands_still_in_a_transaction_is_taken_over(
    alice: User, ep1: Endpoint, ep2: Endpoint, database_url: str, tmp_path: Path, what: str, statements: int
) -> None:
    """With the lock of the user's turns, the row of the lease, and that of the task."""
    task = submit(alice, ep1, ep2)
    epoch = 0 if what == "acquire" else take(task, "frozen").epoch
    with frozen(database_url, what, task, epoch, statements, tmp_path) as process:
        # When the lease has long ended.
        begun, then = time.monotonic(), later(3600)
        # While its transaction lasts, it counts as a holder that lives: nobody waits for it.
        heir = acquire(task.pk, "heir", now=then)
        while heir is LeaseRefusal.HELD and time.monotonic() - begun < LONGEST:
            time.sleep(0.1)
            heir = acquire(task.pk, "heir", now=then)
        assert time.monotonic() - begun < LONGEST
        assert isinstance(heir, Grant), heir
        assert heir.epoch == epoch + 1
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate(timeout=60)
        # Its transaction has ended, and it writes nothing.
        assert "OperationalError" in said
        assert Lease.objects.get(pk=task.pk).worker == "heir"
        heartbeat(task.pk, heir.epoch, now=then)
