"""A token bucket whose rate changes while others wait at it. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections import deque

#: Seconds of the rate that may be used at once after a pause.
BURST = 0.25
#: The most seconds that a piece of before may hold up the next one after the rate has become lower.
LONGEST_DEBT = 1.0


class Pacer:
    """Pieces pass in their order. A piece may overdraw the bucket: the next one waits longer."""

    def __init__(self) -> None:
        #: Octets a second; None: no limit.
        self._rate: float | None = None
        self._tokens = 0.0
        self._filled_at = 0.0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The rate that `change` asked for last.
        self._wanted: float | None = None
        #: How the lanes of the slice are paced; "": none is open yet.
        self.how = ""

    def begin(self, how: str) -> None:
        """A lane was opened; from now on the rate follows `change`. On the loop."""
        self.how = self.how or how
        self._loop = asyncio.get_running_loop()
        self.set_rate(self._wanted)

    def change(self, rate: float | None) -> None:
        """`set_rate` soon, from any thread."""
        self._wanted = rate
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.set_rate, rate)

    @property
    def rate(self) -> float | None:
        """Octets a second; None: no limit."""
        return self._rate

    def set_rate(self, rate: float | None) -> None:
        """From now on so many octets a second; those that wait are served by it."""
        if rate == self._rate:
            return
        self._fill()
        self._rate = rate
        self._tokens = max(self._tokens, -LONGEST_DEBT * rate) if rate is not None else 0.0
        self._serve()

    async def take(self, octets: int) -> None:
        """Wait until so many octets may be moved."""
        if self._rate is None and not self._waiting:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((octets, turn))
        self._serve()
        await turn

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._rate is not None:
            self._tokens = min(self._tokens + (now - self._filled_at) * self._rate, BURST * self._rate)
        self._filled_at = now

    def _serve(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fill()
        while self._waiting and (self._rate is None or self._tokens > 0):
            octets, turn = self._waiting.popleft()
            if not turn.done():
                self._tokens -= octets if self._rate is not None else 0
                turn.set_result(None)
        if self._waiting and self._rate:
            self._timer = asyncio.get_running_loop().call_later(-self._tokens / self._rate + 0.001, self._serve)
