"""The database, for the relay's event loop: each call is one short piece of work in a thread of a small pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import close_old_connections

T = TypeVar("T")

#: Each thread has a connection to the database while it works.
THREADS = 4


class Database:
    """Threads with connections. Their number bounds what a crowd of agents asks of the database."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")

    async def call(self, work: Callable[[], T]) -> T:
        """Raises what the work raises, such as django.db.Error."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _on_a_connection, work)

    async def stop(self) -> None:
        """Begin no more work."""
        self._threads.shutdown(wait=False)


def _on_a_connection(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        close_old_connections()
