"""The bandwidth of all streamed tasks of one worker process together: a token bucket, with turns for tasks.

The rate is that of the instance; `RateShare` finds the part of this process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from .rate_share import ASK_SECONDS, RateShare

#: Seconds of bandwidth that may be used at once after a pause.
BURST = 0.25


class Bandwidth:
    """Lives on one event loop. rate: octets a second; 0: no limit. share: None: all of it is for this process."""

    def __init__(self, rate: int, share: RateShare | None = None) -> None:
        self._whole = rate
        self._share = share
        self._tokens = 0.0
        self._filled_at = 0.0
        #: The pieces that wait, by task. The task in front is served next, and goes to the end then.
        self._waiting: OrderedDict[str, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, task_id: str, octets: int) -> None:
        """Wait until this task may move so many octets."""
        if not self._whole:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task_id, deque()).append((octets, turn))
        self._serve()
        await turn

    @property
    def _rate(self) -> float:
        return self._whole / (self._share.processes if self._share else 1)

    def _serve(self) -> None:
        """Serve whoever is next while there are tokens. A piece may overdraw them: the next one waits longer."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._share:
            self._share.ask_if_due()
        gained = (now - self._filled_at) * self._rate
        self._tokens, self._filled_at = min(self._tokens + gained, BURST * self._rate), now
        while self._waiting and self._tokens > 0:
            task_id, pieces = next(iter(self._waiting.items()))
            octets, turn = pieces.popleft()
            self._waiting.move_to_end(task_id)
            if not pieces:
                del self._waiting[task_id]
            if not turn.done():
                self._tokens -= octets
                turn.set_result(None)
        if self._waiting and self._timer is None:
            # The part may grow meanwhile.
            self._timer = loop.call_later(min(-self._tokens / self._rate + 0.001, ASK_SECONDS), self._again)

    def _again(self) -> None:
        self._timer = None
        self._serve()
