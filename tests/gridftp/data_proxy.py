"""A proxy for data channels: paced, counted, and cut where we want.

The proxy of the control channel leads data connections here by rewriting PORT.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from typing import Self

#: Octets passed on at a time, and kept in the sockets on the way: what is under way when it is cut is small.
PIECE = 64 * 1024


class Cut(enum.Enum):
    RESET = enum.auto()
    CLOSE = enum.auto()
    HANG = enum.auto()


class DataProxy:
    """passed: octets that went to the destination, over all connections there ever were.

    rate: octets a second, of all connections together; None: as fast as it goes.
    cut: what happens to all connections once `after` octets have passed; once.
    keep: hold on to what went to the destination, in `seen`.
    """

    def __init__(
        self, *, rate: float | None = None, cut: Cut | None = None, after: int = 0, keep: bool = False
    ) -> None:
        self.passed = 0
        self.seen = bytearray()
        self.cuts = 0
        self._rate = rate
        self._cut = cut
        self._after = after
        self._keep = keep
        self._free_at = 0.0
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._hung: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    async def door(self, host: str, port: int) -> int:
        """A port of loopback that leads to this address."""
        return self.open_door(host, port)

    def open_door(self, host: str, port: int) -> int:
        """`door` for those who cannot wait: who comes early stands in the queue of the socket."""
        listener = socket.create_server(("127.0.0.1", 0))
        task = asyncio.get_running_loop().create_task(self._open_door(listener, host, port))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        number: int = listener.getsockname()[1]
        return number

    async def _open_door(self, listener: socket.socket, host: str, port: int) -> None:
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(reader, writer, host, port))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._servers.append(await asyncio.start_server(serve, sock=listener, limit=PIECE))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        try:
            back, onward = await asyncio.open_connection(host, port, limit=PIECE)
            onward.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
            self._writers |= {writer, onward}
            try:
                # One direction at its end: let the other one end by itself, as a wire would.
                await asyncio.gather(self._pump(reader, onward, counted=True), self._pump(back, writer, counted=False))
            finally:
                onward.transport.abort()
                self._writers -= {writer, onward}
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        while piece := await reader.read(PIECE):
            if counted and self._rate:
                await self._pace(len(piece))
            if writer in self._hung:
                await asyncio.sleep(3600)
            writer.write(piece)
            await writer.drain()
            if counted:
                self.passed += len(piece)
                if self._keep:
                    self.seen += piece
                self.piece_passed()
        if writer in self._hung:
            await asyncio.sleep(3600)
        writer.write_eof()

    async def _pace(self, octets: int) -> None:
        assert self._rate
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + octets / self._rate
        await asyncio.sleep(max(0.0, self._free_at - loop.time()))

    def piece_passed(self) -> None:
        """Some octets have gone to the destination."""
        if self._cut and self.passed >= self._after:
            cut, self._cut = self._cut, None
            self.cut_all(cut)

    def cut_all(self, cut: Cut) -> None:
        """Do this to all connections that there are."""
        self.cuts += 1
        for writer in self._writers:
            if cut is Cut.HANG:
                self._hung.add(writer)
                continue
            if cut is Cut.RESET:
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
