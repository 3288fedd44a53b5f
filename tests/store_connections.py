"""The database connections of the threads of the workers' store: an open one keeps a test database from its end."""

from __future__ import annotations

import threading

from django.db import connection

from workers import store


def close_connections() -> None:
    """Close the connection of every thread; the next call of the store opens a new one."""
    everyone = threading.Barrier(store.THREADS)

    def close() -> None:
        everyone.wait(store.LONGEST_RETRY)
        connection.close()

    for closing in [store._threads.submit(close) for _ in range(store.THREADS)]:
        closing.result()
