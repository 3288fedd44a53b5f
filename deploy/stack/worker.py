"""A Celery worker that says when it takes messages: `python -m deploy.stack.worker NAME CONCURRENCY`.

It is `celery -A workers.celery:app worker --pool threads` without the command line of Celery, whose prompt takes
a quarter of a second to load, and with a line on standard output that no log level can hide.
"""

from __future__ import annotations

import sys

from celery.signals import worker_ready

from workers.celery import app

LINE = "takes messages"


def main(name: str, concurrency: int) -> int:
    worker_ready.connect(say_ready)
    worker = app.Worker(
        hostname=f"{name}@%h",
        pool="threads",
        concurrency=concurrency,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def say_ready(**_: object) -> None:
    # Celery turns sys.stdout into log messages.
    if sys.__stdout__ is not None:
        print(LINE, file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2])))
