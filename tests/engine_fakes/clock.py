"""Virtual time: when nothing is ready to run, the clock of the loop jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

#: The start of a ManualClock.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
#: Seconds of a FastClock in one of ours.
FASTER = 25.0


class StuckError(RuntimeError):
    """Everything waits, and no timer is set: in real time this would hang for ever."""


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            # Callbacks are ready: files are asked when there are none, which saves a system call for each step.
            return []
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise StuckError
        self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual: `asyncio.sleep` and `asyncio.timeout` take no real time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time. Raises StuckError when it would never end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class ManualClock:
    """The engine's Clock on the time of the running loop; virtual in a VirtualLoop, real in any other."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=asyncio.get_running_loop().time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FastClock:
    """The engine's Clock in real time, `FASTER` than ours, for tests that do not try the backoff."""

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=FASTER * asyncio.get_running_loop().time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / FASTER)
