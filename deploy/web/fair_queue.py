"""Requests that wait for a thread of the web server, in turn by client, so that a flood delays only itself."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Networks take turns; within a network, credentials do; requests with the same credential are served in order.

    A client is one credential of one network. It has at most `most` requests in threads at once, and all clients of a
    network have at most `most_of_network`. Credentials are not verified yet: a client that invents many gets more turns
    than others of its own network, but all together get the turns of one network. Any thread may call any method.
    """

    def __init__(self, most: int, most_of_network: int) -> None:
        self._most, self._most_of_network = most, most_of_network
        self._networks: OrderedDict[str, OrderedDict[int, deque[T]]] = OrderedDict()
        self._taken: Counter[tuple[str, int]] = Counter()
        self._taken_of_network: Counter[str] = Counter()
        self._lock = threading.Lock()

    def put(self, network: str, credential: int, one: T) -> None:
        """credential: a hash of the credentials that the request shows; 0: it shows none."""
        with self._lock:
            self._networks.setdefault(network, OrderedDict()).setdefault(credential, deque()).append(one)

    def take(self) -> T | None:
        """The next request; None where each waiting client has as many threads as allowed. Call `done` afterwards."""
        with self._lock:
            for network, credentials in self._networks.items():
                if self._taken_of_network[network] >= self._most_of_network:
                    continue
                for credential in credentials:
                    if self._taken[network, credential] < self._most:
                        return self._pop(network, credential)
            return None

    def _pop(self, network: str, credential: int) -> T:
        """Move the client and its network to the end of their queues, and return the client's oldest request."""
        credentials = self._networks.pop(network)
        waiting = credentials.pop(credential)
        found = waiting.popleft()
        if waiting:
            credentials[credential] = waiting
        if credentials:
            self._networks[network] = credentials
        self._count(network, credential, 1)
        return found

    def _count(self, network: str, credential: int, change: int) -> None:
        self._taken[network, credential] += change
        self._taken_of_network[network] += change
        if not self._taken[network, credential]:
            del self._taken[network, credential]
        if not self._taken_of_network[network]:
            del self._taken_of_network[network]

    def remove(self, network: str, credential: int, one: T) -> bool:
        """Remove a request that no thread has taken. Returns whether it was in the queue."""
        with self._lock:
            credentials = self._networks.get(network, OrderedDict())
            waiting = credentials.get(credential, deque())
            if one not in waiting:
                return False
            waiting.remove(one)
            if not waiting:
                del credentials[credential]
            if not credentials:
                del self._networks[network]
            return True

    def done(self, network: str, credential: int) -> bool:
        """A request that was taken has left its thread. Returns whether its network has another one waiting."""
        with self._lock:
            self._count(network, credential, -1)
            return network in self._networks

    def again(self, network: str, credential: int) -> None:
        """A request for which `done` was called goes on in its thread: its client may then exceed a limit."""
        with self._lock:
            self._count(network, credential, 1)
