"""The database, for the relay's event loop: each call is one short piece of work in a thread of a small pool."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections, connection

T = TypeVar("T")

#: Each thread keeps a connection to the database.
THREADS = 4
#: Seconds for the threads to end what they do, when the process stops.
CLOSE_SECONDS = 0.4


class Database:
    """Threads with connections. Their number bounds what a crowd of agents asks of the database."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")

    async def call(self, work: Callable[[], T]) -> T:
        """Raises what the work raises, such as django.db.Error."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _on_a_connection, work)

    async def stop(self) -> None:
        """Begin no more work, and close the connection of each thread."""
        all_here = threading.Barrier(THREADS)
        loop = asyncio.get_running_loop()
        closing = [loop.run_in_executor(self._threads, _close, all_here) for _ in range(THREADS)]
        self._threads.shutdown(wait=False)
        await asyncio.gather(*closing)


def _close(all_here: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):
        all_here.wait(CLOSE_SECONDS)
    connection.close()


def _on_a_connection(work: Callable[[], T]) -> T:
    # It also replaces a connection that the server has closed.
    close_old_connections()
    return work()
