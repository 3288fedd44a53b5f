"""Keeps the leases of this process while its event loop stands still.

A slice renews its lease by its own heartbeats, on the loop. A server whose messages hold the loop up must not cost the
tasks of others their leases, and so their sessions and all files under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from endpoints.gridftp.wire.fence import Fence

#: Seconds between two looks at the leases.
LOOK = 0.25


class KeptLease(Protocol):
    """`PostgresTaskStore`."""

    def keep(self, fence: Fence) -> None:
        """Renew the lease where its slice is late; does not wait."""


class LeaseKeeper:
    """One thread for all leases of a process. It waits for no server, and for no loop."""

    def __init__(self) -> None:
        self._leases: dict[KeptLease, Fence] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="leases", daemon=True).start()

    @contextmanager
    def keeping(self, lease: KeptLease, fence: Fence) -> Iterator[None]:
        """Keep this lease within the block. fence: of the slice's sessions."""
        with self._changed:
            self._leases[lease] = fence
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                del self._leases[lease]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._leases))
                kept = list(self._leases.items())
            for lease, fence in kept:
                lease.keep(fence)
            time.sleep(LOOK)
