"""Short background tasks of a slice about single files: the lanes do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from workers.engine.work import SliceContext


class BackgroundTasks:
    """Keeps the tasks that run, so that they can be counted and canceled.

    ended: called after the end of each task.
    """

    def __init__(self, work: SliceContext, ended: Callable[[], None]) -> None:
        self._work = work
        self._ended = ended
        self._running: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> Sequence[asyncio.Task[None]]:
        """The tasks that have not ended."""
        return list(self._running)

    def __bool__(self) -> bool:
        return bool(self._running)

    def start(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run this as a part of the slice: an unexpected error in it ends the slice."""
        task = self._work.spawn(part)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._ended()
