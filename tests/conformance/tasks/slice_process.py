"""A worker process for one slice of one task, without Celery:  python -m tests.conformance.tasks.slice_process TASK

It leaves its log on standard error.
"""

from __future__ import annotations

import logging
import os
import sys

import django


def main(task: str) -> None:
    logging.basicConfig(level=logging.INFO)
    django.setup()
    # Also why a task is not taken.
    logging.getLogger("workers.runtime").setLevel(logging.DEBUG)
    from transferapi.outages import database
    from workers import runtime

    database.watch(database.IN_BACKGROUND)
    runtime.run(task)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
