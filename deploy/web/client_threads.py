"""The threads of a worker that wait for clients which take long answers slowly: so many at a time, and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .connections import HttpConnection
from .fair_queue import FairQueue


class ClientThreads:
    """Implements connections.ClientWaits. A thread that waits is not counted among those of its client."""

    def __init__(self, most: int, requests: FairQueue[HttpConnection], submit: Callable[[], None]) -> None:
        self._places = threading.Semaphore(most)
        self._requests, self._submit = requests, submit

    def begin(self, connection: HttpConnection) -> bool:
        if not self._places.acquire(blocking=False):
            return False
        if self._requests.done(connection.client_network, connection.credential):
            self._submit()
        return True

    def end(self, connection: HttpConnection) -> None:
        self._requests.again(connection.client_network, connection.credential)
        self._places.release()
