"""A worker that is asked to stop releases its tasks, at whatever moment it is asked."""

from __future__ import annotations

import subprocess
import sys

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from transferapi.config import CHECKOUT

#: The runtime is made for the first task of a process: the signal may arrive between the lease and that.
SCRIPT = """
import workers.celery
from workers import runtime
runtime.stop()
import time
until = time.monotonic() + 20
while not runtime.current().stop.is_set() and time.monotonic() < until:
    time.sleep(0.01)
print(runtime.current().stop.is_set())
"""


def test_a_signal_before_the_first_task_has_a_loop_is_not_lost(postgres: Postgres, redis_server: Redis) -> None:
    environ = {
        "DATABASE_URL": postgres.url("postgres"),
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
        cwd=CHECKOUT,
    )
    assert done.stdout.split()[-1] == "True"
