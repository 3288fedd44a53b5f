"""The lease of the task as a slice sees it: it is renewed by heartbeats, and nothing leaves for a server without it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from endpoints.gridftp.wire.fence import Fence
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.records import HeartbeatReply

from .ports import Clock, TaskStore

T = TypeVar("T")

#: Seconds between two heartbeats.
HEARTBEAT = 1.0


class HeldLease:
    """fence: of the sessions of this slice. Made on the loop of the slice."""

    def __init__(self, store: TaskStore, fence: Fence, clock: Clock) -> None:
        self._store = store
        self._fence = fence
        self._clock = clock
        self._renewed = asyncio.Event()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def renew(self) -> HeartbeatReply:
        """`TaskStore.heartbeat`: the fence is extended from the moment before the call. Raises LeaseLostError."""
        begun = self._fence.now()
        pulse = await self._store.heartbeat()
        self._fence.extend(begun)
        self._renewed.set()
        return pulse

    def lose(self) -> None:
        """Another worker has the task, or may have it: from now on nothing leaves for the servers."""
        self._fence.close()
        if not self._lost.done():
            self._lost.set_result(None)

    def check(self) -> None:
        """A fault that comes when the fence is closed is of this worker, and of no server. Raises LeaseLostError."""
        if self._fence.closed:
            raise LeaseLostError

    @property
    def may_ask(self) -> bool:
        """Whether a request to a server would leave."""
        return not self._fence.closed

    async def while_held(self, part: Coroutine[Any, Any, T]) -> T:
        """The result of a part of the slice. Raises LeaseLostError, at once where the fence closes meanwhile."""
        running, watching = asyncio.ensure_future(part), asyncio.ensure_future(self._watch())
        ends: list[asyncio.Future[Any]] = [running, watching, self._lost]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise LeaseLostError
            return running.result()
        finally:
            running.cancel()
            watching.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Return when the fence closes. Before the first heartbeat it is not open yet."""
        await self._renewed.wait()
        while seconds := self._fence.seconds_left:
            await self._clock.sleep(seconds)

    async def keep_fence_open(self) -> None:
        """After the end of the lease, for names that no other slice knows: it closes if this process stands still."""
        while True:
            self._fence.extend(self._fence.now())
            await self._clock.sleep(HEARTBEAT)
