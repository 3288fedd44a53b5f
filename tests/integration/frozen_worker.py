"""A worker process that stands still in the middle of a transaction, with its locks.

    python -m tests.integration.frozen_worker acquire|settle|release TASK EPOCH STATEMENTS

Runs the function of the worker's store. After so many statements of it, the process stops itself (SIGSTOP): its kernel
goes on, so that the server sees a line in order, as from a frozen machine. It ends in order when it is continued.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable
from typing import Any

import django


def main(what: str, task: str, epoch: str, statements: str) -> int:
    django.setup()
    from django.db import connection
    from django.utils import timezone

    from transferapi.tasks.records import Settlement
    from transferapi.tasks.worker import leases, settling, slice_end
    from workers.store import on_a_connection

    id_, number = uuid.UUID(task), int(epoch)
    left = [int(statements)]

    def count(execute: Callable[..., Any], *words: Any) -> Any:
        try:
            return execute(*words)
        finally:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGSTOP)

    actions: dict[str, Callable[[], object]] = {
        "acquire": lambda: leases.acquire(id_, "frozen"),
        "settle": lambda: settling.write(id_, number, Settlement()),
        "release": lambda: slice_end.release(id_, number, timezone.now()),
    }
    with connection.execute_wrapper(count):
        print(on_a_connection(actions[what]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
