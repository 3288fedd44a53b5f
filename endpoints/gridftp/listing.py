"""Listings of folders: MLSC on the control channel, MLSD on a data connection, and the entries in both.

The output of a server is bounded here for all callers: in lines and octets (`Allowance`), and in buffered octets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace

from identity.gsi.printable import error_text

from .connection import CONNECT_TIMEOUT, STALL_TIMEOUT, ControlConnection
from .facts import Entry, FactsError, parse_line
from .faults import Fault, FaultError, Kind, classify, make_fault
from .replies import LINE_COST, MAX_LINE, Reply
from .streams.passive import data_connection
from .streams.tls_streams import ClientDataConnection

#: Octets buffered for a slow consumer at which reading from the server pauses, and at which it resumes.
MAX_WAITING, RESUME_AT = 1024 * 1024, 512 * 1024
#: Octets that the rest of an abandoned listing may have; then the connection is closed.
MAX_DROPPED = 4 * 1024 * 1024
#: Lines of a listing parsed at once: some milliseconds of work.
PORTION = 500
#: Octets of a name, and of a path: no file system has longer ones.
MAX_NAME = 4096
#: Default limits of one listing, in lines and octets.
MAX_LINES, MAX_OCTETS = 5_000_000, 1 << 30


class Allowance:
    """The limits of one listing, in lines and in octets. Counts all lines of the server, entries or not.

    A block counts as one line more than it has, so that empty blocks are limited too.
    """

    def __init__(self, lines: int = MAX_LINES, octets: int = MAX_OCTETS) -> None:
        self._lines = self._most_lines = lines
        self._octets = self._most_octets = octets

    def take(self, lines: Sequence[bytes]) -> None:
        """Count these lines. Raises FaultError (LIMIT_EXCEEDED)."""
        self._lines -= len(lines) + 1
        self._octets -= sum(map(len, lines))
        if self._lines < 0 or self._octets < 0:
            bounds = f"{self._most_lines} lines, or {self._most_octets} octets"
            raise too_long(f"This folder's listing has more than {bounds}.")

    def turn(self) -> AbstractContextManager[object]:
        """A context in which each portion is parsed."""
        return nullcontext()

    def keep(self, entries: Sequence[Entry]) -> None:
        """Called with all entries, for a subclass that limits them. May raise FaultError."""


def too_long(advice: str) -> FaultError:
    """The fault of a listing over its limit; it is not retried."""
    return FaultError(Fault(Kind.LIMIT_EXCEEDED, retryable=False, advice=advice))


def entries_of(lines: Sequence[bytes], allowance: Allowance) -> Iterable[Sequence[Entry]]:
    """The entries of one block, in portions, without "." and "..". Raises FaultError."""
    for portion in _portions(lines):
        with allowance.turn():
            entries = _parse_lines(portion)
        if entries:
            allowance.keep(entries)
            yield entries


def _count(connection: ControlConnection, allowance: Allowance, lines: Sequence[bytes]) -> None:
    """Count lines. The server cannot be stopped: a listing over its limit ends the connection. Raises FaultError."""
    try:
        allowance.take(lines)
    except FaultError:
        connection.abort()
        raise


async def blocks_on_control(
    connection: ControlConnection, path: bytes, allowance: Allowance
) -> AsyncGenerator[Sequence[bytes], None]:
    """MLSC, over the control channel: a long listing is several preliminary replies, then the final one.

    When the consumer leaves before the end, the rest is dropped.
    """
    waiting = _Waiting(connection)

    async def run() -> None:
        try:
            waiting.put(await connection.request("MLSC", path, waiting.put))
        except FaultError as error:
            waiting.put(error)

    runner = asyncio.create_task(run())
    done = False
    try:
        while not done:
            reply = await waiting.get()
            done = not reply.is_preliminary
            if reply.is_error:
                raise FaultError(classify(reply))
            lines = reply.lines[1:-1]
            _count(connection, allowance, lines)
            yield lines
            waiting.release(reply)
    finally:
        waiting.drop()
        runner.cancel()


class _Waiting:
    """Replies that wait for the consumer. While there are too many octets, the connection is not read."""

    def __init__(self, connection: ControlConnection) -> None:
        self._connection = connection
        self._replies: asyncio.Queue[Reply | FaultError] = asyncio.Queue()
        self._octets = 0
        self._dropped = False

    def put(self, reply: Reply | FaultError) -> None:
        self._octets += _size(reply) if isinstance(reply, Reply) else 0
        if self._dropped:
            if self._octets > MAX_DROPPED:
                self._connection.abort()
            return
        self._replies.put_nowait(reply)
        if self._octets > MAX_WAITING:
            self._connection.pause()

    async def get(self) -> Reply:
        """The next reply. Raises FaultError when the connection is lost."""
        reply = await self._replies.get()
        if isinstance(reply, FaultError):
            raise reply
        return reply

    def release(self, reply: Reply) -> None:
        """The consumer is done with this reply."""
        self._octets -= _size(reply)
        if self._octets <= RESUME_AT:
            self._connection.resume()

    def drop(self) -> None:
        """The consumer has left: a short rest is read and dropped, a long one ends the connection."""
        self._dropped, self._octets = True, 0
        self._connection.resume()


def _size(reply: Reply) -> int:
    return sum(map(len, reply.lines)) + LINE_COST * len(reply.lines)


async def blocks_on_data(
    connection: ControlConnection, path: bytes, allowance: Allowance, *, verb: str = "MLSD"
) -> AsyncGenerator[Sequence[bytes], None]:
    """MLSD (RFC 3659 section 7.2) over a data connection, for servers without MLSC; or LIST. One at a time."""
    await connection.ask("MODE", b"S")  # a session that belonged to a lane is still in mode E
    connect = await data_connection(connection, connection.data_tls() if connection.data_tls is not None else None)
    answer = asyncio.create_task(connection.request(verb, path))
    try:
        # Closed here, also where the consumer leaves: the garbage collector would do it when the loop has ended.
        async with aclosing(_read_lines(connect, answer)) as found:
            async for lines in found:
                _count(connection, allowance, lines)
                yield lines
        reply = await answer
        if reply.is_error:
            raise FaultError(classify(reply))
    except (OSError, TimeoutError) as error:
        # A reply of the server says more about the cause than the error of the socket.
        if answer.done() and not answer.exception() and answer.result().is_error:
            raise FaultError(classify(answer.result())) from None
        raise FaultError(make_fault(Kind.CONNECT_FAILED, error_text(error))) from None
    finally:
        answer.cancel()


async def _read_lines(
    connect: Callable[[], Awaitable[ClientDataConnection]], answer: asyncio.Future[Reply]
) -> AsyncGenerator[Sequence[bytes], None]:
    """The lines of a data connection. Raises OSError, TimeoutError, FaultError for a line without end."""
    async with asyncio.timeout(CONNECT_TIMEOUT):
        data_connection = await connect()
    data_connection.abort_if_refused(answer)
    try:
        rest = b""
        data = b"-"
        while data:
            async with asyncio.timeout(STALL_TIMEOUT):
                data = await data_connection.read()
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_LINE or any(len(line) > MAX_LINE for line in lines):
                raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a line too long in a listing", retryable=False))
            yield [line.rstrip(b"\r") for line in lines]
    finally:
        data_connection.abort()


def _portions(lines: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """Parts of a long block, so that the consumer can begin before all of it is parsed.

    A name with a line feed stays in one part: see `_parse_lines`.
    """
    start = 0
    while start < len(lines):
        end = start + PORTION
        while end < len(lines) and b"=" not in lines[end]:
            end += 1
        yield lines[start:end]
        start = end


def _parse_lines(lines: Iterable[bytes]) -> list[Entry]:
    """Entries of a listing block. Raises FaultError for a name longer than MAX_NAME.

    A line without facts is the rest of a name with a line feed, which the format cannot escape: the name is joined
    again, so that the caller refuses the whole name instead of using a part of it.
    """
    entries: list[Entry] = []
    for line in lines:
        try:
            entry = parse_line(line.removeprefix(b" "))
        except FactsError:
            if entries and line:
                entries[-1] = replace(entries[-1], name=f"{entries[-1].name}\n{line.decode('utf-8', 'replace')}")
                check_name(entries[-1].name)
            continue
        if entry.kind not in ("cdir", "pdir") and entry.name not in (".", ".."):
            check_name(entry.name)
            entries.append(entry)
    return entries


def check_name(name: str) -> None:
    """Raises FaultError for a name longer than MAX_NAME."""
    if len(name) > MAX_NAME:
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, f"a name of more than {MAX_NAME} octets", retryable=False))
