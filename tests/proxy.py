"""A proxy for control channels that misbehaves once, at a line of our choosing.

It stands between our client and a real server. Lines are counted in the direction that is watched; when the
chosen one comes, the proxy does its worst: closes, resets, hangs, cuts the line, or says something else.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from dataclasses import dataclass
from typing import Self


class Deed(enum.Enum):
    CLOSE = enum.auto()
    RESET = enum.auto()
    HANG = enum.auto()
    HALF_LINE_THEN_CLOSE = enum.auto()
    GARBAGE = enum.auto()
    ENDLESS_LINE = enum.auto()


class Watch(enum.Enum):
    COMMANDS = enum.auto()
    REPLIES = enum.auto()


@dataclass(frozen=True)
class Plan:
    """Do `deed` instead of passing on line number `line` (from 0) of `watch`; the first connection only."""

    watch: Watch
    line: int
    deed: Deed


class MisbehavingProxy:
    """Listens on a free port of loopback. `deeds` counts how often the plan came true."""

    def __init__(self, target_port: int, plan: Plan | None) -> None:
        self._target = target_port
        self._plan = plan
        self._tasks: set[asyncio.Task[None]] = set()
        self.deeds = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close their sockets in the loop's next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        plan, self._plan = self._plan, None
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, upstream_writer, writer, plan, Watch.COMMANDS))
                group.create_task(self._pump(upstream_reader, writer, writer, plan, Watch.REPLIES))
        except* (OSError, _EndError):
            pass
        finally:
            # abort, not close: a peer that reads nothing must not keep a transport alive beyond the test.
            writer.transport.abort()
            upstream_writer.transport.abort()
            self._tasks.discard(task)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        plan: Plan | None,
        direction: Watch,
    ) -> None:
        number = 0
        while line := await reader.readline():
            if plan and plan.watch is direction and plan.line == number:
                self.deeds += 1
                await self._misbehave(plan.deed, line, writer, client)
            writer.write(line)
            await writer.drain()
            number += 1
        raise _EndError

    async def _misbehave(
        self, deed: Deed, line: bytes, writer: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        match deed:
            case Deed.CLOSE:
                raise _EndError
            case Deed.RESET:
                raw = client.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise _EndError
            case Deed.HANG:
                await asyncio.sleep(3600)
            case Deed.HALF_LINE_THEN_CLOSE:
                writer.write(line[: len(line) // 2])
                await writer.drain()
                raise _EndError
            case Deed.GARBAGE:
                client.write(b"\x00\xff\x16\x03\x01 this is no reply\r\n" * 3)
                await client.drain()
                raise _EndError
            case Deed.ENDLESS_LINE:
                client.write(b"2" * 200_000)
                await client.drain()
                await asyncio.sleep(3600)


class _EndError(Exception):
    """This connection is over."""
