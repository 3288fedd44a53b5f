"""The death of a worker at a chosen step."""

from __future__ import annotations

import asyncio


class Fuse:
    """Counts one step before and one after each call of a port; after the last step the worker is dead.

    A dead worker's call never returns. `dead` is set for the test, which takes the lease away and cancels the worker.
    """

    def __init__(self, steps: int | None = None) -> None:
        self.left = steps
        self.burnt = 0
        self.dead = asyncio.Event()

    async def burn(self) -> None:
        self.burnt += 1
        if self.left is None:
            return
        self.left -= 1
        if self.left == 0:
            self.dead.set()
            await asyncio.get_running_loop().create_future()
