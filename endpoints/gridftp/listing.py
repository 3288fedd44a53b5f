"""Listings of folders: MLSC on the control channel, MLSD on a data connection, and the entries in both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace

from .commands import CommandError, parse_extended_port
from .connection import CONNECT_TIMEOUT, STALL_TIMEOUT, ControlConnection
from .facts import Entry, FactsError, parse_line
from .faults import FaultError, Kind, classify, make_fault
from .replies import Reply
from .words import of_system

#: Listing blocks held for a slow consumer before reading from the server pauses.
MAX_BLOCKS = 16
#: Lines of a listing read at once: some milliseconds of work.
PORTION = 500


def entries_of(lines: Sequence[bytes]) -> Iterable[Sequence[Entry]]:
    """The entries of one block, in portions, without "." and ".."."""
    for portion in _portions(lines):
        entries = _parse_lines(portion)
        if entries:
            yield entries


async def blocks_on_control(connection: ControlConnection, path: bytes) -> AsyncGenerator[Sequence[bytes], None]:
    """MLSC: over the control channel; a long one comes as several preliminary replies, then the final one."""
    blocks: asyncio.Queue[Reply | FaultError] = asyncio.Queue()

    def take(reply: Reply) -> None:
        blocks.put_nowait(reply)
        if blocks.qsize() > MAX_BLOCKS:
            connection.pause()

    async def run() -> None:
        try:
            blocks.put_nowait(await connection.request("MLSC", path, take))
        except FaultError as error:
            blocks.put_nowait(error)

    runner = asyncio.create_task(run())
    try:
        while True:
            reply = await blocks.get()
            if isinstance(reply, FaultError):
                raise reply
            if reply.is_error:
                raise FaultError(classify(reply))
            if blocks.qsize() <= MAX_BLOCKS // 2:
                connection.resume()
            yield reply.lines[1:-1]
            if not reply.is_preliminary:
                return
    finally:
        connection.resume()
        runner.cancel()


async def blocks_on_data(connection: ControlConnection, path: bytes) -> AsyncGenerator[Sequence[bytes], None]:
    """MLSD (RFC 3659 section 7.2) over a data connection, for servers without MLSC; one at a time.

    The connection goes to the host of the control connection, whatever address the server names: a server
    must not be able to make this service connect somewhere else.
    """
    await connection.ask("MODE", b"S")  # a session that was a lane's is still in mode E
    passive = await connection.ask("EPSV")
    try:
        port = parse_extended_port(b" ".join(passive.lines))
    except CommandError as error:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, str(error))) from None
    answer = asyncio.create_task(connection.request("MLSD", path))
    try:
        async for lines in _read_lines(connection.peer_host, port):
            yield lines
        reply = await answer
        if reply.is_error:
            raise FaultError(classify(reply))
    except (OSError, TimeoutError) as error:
        # What the server says of it tells more than the socket does, if it says anything.
        if answer.done() and not answer.exception() and answer.result().is_error:
            raise FaultError(classify(answer.result())) from None
        raise FaultError(make_fault(Kind.CONNECT_FAILED, of_system(error))) from None
    finally:
        answer.cancel()


async def _read_lines(host: str, port: int) -> AsyncGenerator[Sequence[bytes], None]:
    """The lines of a data connection until its end. Raises OSError, TimeoutError."""
    async with asyncio.timeout(CONNECT_TIMEOUT):
        reader, writer = await asyncio.open_connection(host, port)
    try:
        rest = b""
        data = b"-"
        while data:
            async with asyncio.timeout(STALL_TIMEOUT):
                data = await reader.read(256 * 1024)
            *lines, rest = (rest + data).split(b"\n")
            yield [line.rstrip(b"\r") for line in lines]
    finally:
        writer.close()


def _portions(lines: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """Parts of a long block, so that whoever asked can begin on the first while the last is still to be read.

    A name with a line feed in it stays in one part: see `_parse_lines`.
    """
    start = 0
    while start < len(lines):
        end = start + PORTION
        while end < len(lines) and b"=" not in lines[end]:
            end += 1
        yield lines[start:end]
        start = end


def _parse_lines(lines: Iterable[bytes]) -> list[Entry]:
    """Entries of a listing block.

    A line that holds no facts is the rest of a name with a line feed in it, which the format cannot escape: the
    name is put together again, so that the one who asked sees it and refuses it, rather than a name cut short.
    """
    entries: list[Entry] = []
    for line in lines:
        try:
            entry = parse_line(line.removeprefix(b" "))
        except FactsError:
            if entries and line:
                entries[-1] = replace(entries[-1], name=f"{entries[-1].name}\n{line.decode('utf-8', 'replace')}")
            continue
        if entry.kind not in ("cdir", "pdir") and entry.name not in (".", ".."):
            entries.append(entry)
    return entries
