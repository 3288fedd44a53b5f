"""The seam of streamed transfers: a file that is read, a file that is written, and the octets in memory between them.

A worker that streams reads a `FileReader`, and writes to a `FileWriter`; each kind of server has one of both (SFTP:
`endpoints/ssh/sftp/files.py`; MODE S: `mode_s.py`). Every method raises FaultError.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Protocol

#: Octets of one piece: of a read, of a write, and of the octets that are reserved at a time.
PIECE = 256 * 1024


class FileReader(Protocol):
    """A file from an offset on."""

    async def read(self) -> bytes:
        """The next octets, in order; b"" at the end, after the server has reported that this is the whole file."""

    async def close(self) -> None:
        """Stop at once; may be called repeatedly."""


class FileWriter(Protocol):
    """A file that is written from an offset on, in order."""

    @property
    def stored(self) -> int:
        """The octets from the beginning of the file that are certain to be at the destination, to continue there."""

    async def write(self, data: bytes) -> None:
        """Send these octets next; waits while too many are in flight. The writer gives them back to its share."""

    async def finish(self) -> None:
        """Wait until the server has reported success for everything, and close the file."""

    async def confirm(self) -> None:
        """The source has failed: wait until all that came is stored, to be continued. The file is not complete."""

    async def close(self) -> None:
        """Stop at once; may be called repeatedly."""


class OctetBudget:
    """The octets that the streams of one task may hold in memory: read or requested, and not yet written.

    The first to wait is served first. A reader takes octets before it asks for them, in the order of the file, so that
    the octets of the reader that is first in line always arrive, are written, and are given back.
    """

    def __init__(self, octets: int) -> None:
        self.free = self._most = octets
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def share(self) -> OctetShare:
        """The account of one file."""
        return OctetShare(self)

    async def take(self, octets: int) -> None:
        """Wait for so many octets, at most those of the whole budget."""
        if self.try_take(octets):
            return
        octets = min(octets, self._most)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((octets, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(octets)
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove((octets, turn))
                self.give(0)
            raise

    def try_take(self, octets: int) -> bool:
        """Take octets if they are free and nobody waits."""
        octets = min(octets, self._most)
        if self._waiting or self.free < octets:
            return False
        self.free -= octets
        return True

    def give(self, octets: int) -> None:
        """Give octets back, and serve those who wait."""
        self.free += octets
        while self._waiting and self.free >= self._waiting[0][0]:
            octets, turn = self._waiting.popleft()
            if not turn.done():
                self.free -= octets
                turn.set_result(None)


class OctetShare:
    """The octets of one file in a budget."""

    def __init__(self, budget: OctetBudget) -> None:
        self._budget = budget
        self.held = 0

    async def take(self, octets: int) -> None:
        """Wait for so many octets."""
        await self._budget.take(octets)
        self.held += octets

    def try_take(self, octets: int) -> bool:
        """Take octets if they are free."""
        taken = self._budget.try_take(octets)
        self.held += octets if taken else 0
        return taken

    def give(self, octets: int) -> None:
        """These octets have left the memory."""
        octets = min(octets, self.held)
        self.held -= octets
        self._budget.give(octets)

    def close(self) -> None:
        """Give everything back, whatever happened to the file."""
        self.give(self.held)
