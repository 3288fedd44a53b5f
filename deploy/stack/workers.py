"""The Celery workers of a machine, as children of one process that has loaded all that they need.

    python -m deploy.stack.workers --count 2 --threads 16 --logs FOLDER --members FILE

Each is what `waybill run worker` runs, restarted when it crashes. Loaded once and
forked, together they need the start time and most of the memory of one.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import celery.worker.consumer
import kombu.transport.redis
from celery.concurrency import thread
from celery.signals import worker_ready

from workers.celery import app

from .errors import StartError
from .home import write_private
from .roles import WORKER_OPTIONS
from .supervisor import SupervisedProgram, Supervisor

#: Loaded before the fork, because every worker would load it afterwards.
LOADED = (celery.worker.consumer, kombu.transport.redis, thread)
LINE = "take messages"
START_SECONDS = 60.0
#: Less than the time limit of our supervisor. The leases of work that is not finished by then expire.
STOP_SECONDS = (0.7, 0.0)


def main(words: Sequence[str] | None = None) -> int:
    options = parser().parse_args(words)
    app.loader.import_default_modules()
    app.finalize()
    gc.freeze()
    supervisor = Supervisor(
        [worker(f"worker{number}", options) for number in range(1, options.count + 1)], stop_seconds=STOP_SECONDS
    )
    try:
        if supervisor.start(timeout=START_SECONDS):
            tell(options.members, supervisor.pids())
            print(LINE, flush=True)
        while not supervisor.stopping:
            before = supervisor.pids()
            supervisor.watch()
            if supervisor.pids() != before:
                tell(options.members, supervisor.pids())
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        supervisor.stop()
    return 0


def tell(members: Path, pids: dict[str, int]) -> None:
    """Write the pids of the workers, and wake our supervisor: for it this is a change among its children."""
    write_private(members, json.dumps(pids))
    os.kill(os.getppid(), signal.SIGCHLD)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.stack.workers", description="The workers of this machine.")
    parser.add_argument("--count", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=16, help="tasks of each at a time (default: %(default)s)")
    parser.add_argument("--logs", type=Path, required=True, help="folder for the logs")
    parser.add_argument("--members", type=Path, required=True, help="file for the names and pids")
    return parser


def worker(name: str, options: argparse.Namespace) -> SupervisedProgram:
    log = options.logs / f"{name}.log"
    return SupervisedProgram(
        name,
        argv=(),
        log=log,
        work=partial(run_worker, name, options.threads),
        ready=lambda text: LINE.encode() in text,
    )


def run_worker(name: str, threads: int) -> int:
    """One Celery worker, until SIGTERM; returns its exit status."""
    worker_ready.connect(say_ready)
    made = app.Worker(
        hostname=f"{name}@%h",
        concurrency=threads,
        quiet=True,
        **WORKER_OPTIONS,
    )
    made.start()
    return int(made.exitcode or 0)


def say_ready(**_: object) -> None:
    # Celery turns sys.stdout into log messages, which a log level may hide.
    if sys.__stdout__ is not None:
        print(LINE, file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
