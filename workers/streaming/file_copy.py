"""One file through this worker: from the reader of its source to the writer of its destination."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from endpoints.gridftp.faults import FaultError, Kind, Side, make_fault
from endpoints.gridftp.streams.digest import Digest
from endpoints.gridftp.streams.file_streams import FileReader, FileWriter, OctetShare

#: Seconds for the destination to store what came before the source failed.
CONFIRM_TIMEOUT = 30.0
_T = TypeVar("_T")


class FileCopy:
    """One file on its way. Raises FaultError with the side that is at fault.

    offset: of the first octet that is moved; the earlier ones are at the destination already.
    open_reader, open_writer: called with the share of the file. The destination is opened, and with it emptied, when
    the source is open. pace: waits until so many octets may be moved. progressed: called after each piece.
    digest: of all octets, where the caller asks for it; the file then begins at 0. most: octets of the file after which
    it counts as one that grows for ever.
    """

    def __init__(
        self,
        share: OctetShare,
        offset: int,
        *,
        open_reader: Callable[[OctetShare], Awaitable[FileReader]],
        open_writer: Callable[[OctetShare], Awaitable[FileWriter]],
        pace: Callable[[int], Awaitable[None]],
        progressed: Callable[[], None],
        digest: Digest | None = None,
        most: int | None = None,
    ) -> None:
        self.position = offset
        self._most = most
        self._share = share
        self._open_reader = open_reader
        self._open_writer = open_writer
        self._pace = pace
        self._progressed = progressed
        self._digest = digest
        self._reader: FileReader | None = None
        self._writer: FileWriter | None = None
        self._reading: asyncio.Task[bytes] | None = None

    @property
    def begun(self) -> bool:
        """Whether the destination was opened."""
        return self._writer is not None

    @property
    def stored(self) -> int:
        """Octets from the beginning of the file that are certain to be at the destination."""
        return self._writer.stored if self._writer else 0

    async def run(self) -> int:
        """Move the rest of the file; returns its size. Both files are closed, whatever happens."""
        try:
            self._reader = await at_side(Side.SOURCE, self._open_reader(self._share))
            # The first octets are on their way while the destination is opened.
            self._reading = asyncio.ensure_future(self._reader.read())
            self._writer = await at_side(Side.DESTINATION, self._open_writer(self._share))
            data = await at_side(Side.SOURCE, self._reading)
            while data:
                await self._move(data, self._writer)
                data = await at_side(Side.SOURCE, self._reader.read())
            await at_side(Side.DESTINATION, self._writer.finish())
            return self.position
        except FaultError as error:
            if error.fault.side is Side.SOURCE and self._writer:
                await self._confirm(self._writer)
            raise
        finally:
            await self._close()

    async def _move(self, data: bytes, writer: FileWriter) -> None:
        await self._pace(len(data))
        if self._digest:
            self._digest.update(data)
        await at_side(Side.DESTINATION, writer.write(data))
        self.position += len(data)
        if self._most is not None and self.position > self._most:
            raw = f"{self.position} octets have been read, and the file has no end"
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw, side=Side.SOURCE))
        self._progressed()

    async def _confirm(self, writer: FileWriter) -> None:
        """Where the source has failed: a server that reports success has stored all that came."""
        with contextlib.suppress(FaultError, TimeoutError):
            async with asyncio.timeout(CONFIRM_TIMEOUT):
                await writer.confirm()

    async def _close(self) -> None:
        if self._reading and not self._reading.done():
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._reading and not self._reading.cancelled():
            self._reading.exception()
        for one in (self._reader, self._writer):
            with contextlib.suppress(FaultError):
                if one is not None:
                    await one.close()
        self._share.close()


async def at_side(side: Side, work: Awaitable[_T]) -> _T:
    """Set the side of the fault that this raises."""
    try:
        return await work
    except FaultError as error:
        error.fault = error.fault.at(side)
        raise
