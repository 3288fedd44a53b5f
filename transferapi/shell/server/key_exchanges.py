"""Turns of the key exchanges of clients that have not signed in: so many a second, in turns between networks.

A key exchange costs the server more than the client, which may send the same messages again and again, also within one
connection. Without a bound, strangers of many networks would take a whole processor from everybody else's requests.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .bounds import ShellBounds

#: Seconds between two looks of a client that waits whether its connection has ended.
LOOK = 0.5


class KeyExchanges:
    """One for a server; safe for threads."""

    def __init__(self, bounds: ShellBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        #: By network, the turns that wait, the oldest first; the network that was served last is at the end.
        self._waiting: dict[str, deque[threading.Event]] = {}
        self._left, self._at = float(bounds.key_exchanges), clock()
        self._serving = False

    def wait(self, network: str, is_open: Callable[[], bool]) -> bool:
        """Wait for a turn. False: the connection has ended, as where its time is over."""
        turn = threading.Event()
        with self._lock:
            if not self._waiting and self._seconds_to_next() <= 0:
                self._left -= 1
                return True
            self._waiting.setdefault(network, deque()).append(turn)
            if not self._serving:
                self._serving = True
                threading.Thread(target=self._serve, name="key exchanges", daemon=True).start()
        while not turn.wait(LOOK):
            if not is_open():
                self._withdraw(network, turn)
                return False
        return True

    def _serve(self) -> None:
        """Give turns until nobody waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._serving = False
                    return
                pause = self._seconds_to_next()
                if pause <= 0:
                    self._next().set()
                    self._left -= 1
            if pause > 0:
                time.sleep(pause)

    def _next(self) -> threading.Event:
        network = next(iter(self._waiting))
        turns = self._waiting.pop(network)
        turn = turns.popleft()
        if turns:
            self._waiting[network] = turns
        return turn

    def _withdraw(self, network: str, turn: threading.Event) -> None:
        with self._lock:
            turns = self._waiting.get(network, deque())
            if turn in turns:
                turns.remove(turn)
            if not turns:
                self._waiting.pop(network, None)

    def _seconds_to_next(self) -> float:
        """Until another turn may be given; 0: now."""
        now, rate = self._clock(), self._bounds.key_exchanges_per_second
        self._left = min(float(self._bounds.key_exchanges), self._left + (now - self._at) * rate)
        self._at = now
        return max(0.0, (1 - self._left) / rate)
