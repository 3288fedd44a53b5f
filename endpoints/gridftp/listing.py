"""Listings of folders: MLSC on the control channel, MLSD on a data connection, and the entries in both.

A listing is complete, or it is a fault (docs/decisions/scan-and-listings.md): a line that cannot be read, a last line
without an end, and a final reply that speaks of more entries than arrived are faults of the endpoint. The output of a
server is bounded here for all callers: in lines, octets and time (`Allowance`), and in buffered octets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Any

from identity.gsi.printable import error_text, quoted, shown

from .connection import CONNECT_TIMEOUT, STALL_TIMEOUT, ControlConnection, session_fault
from .facts import Entry, FactsError, begins_with_facts, parse_line
from .faults import Fault, FaultError, Kind, classify, make_fault, reported_shortfall
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
#: Entries of a listing that are kept before its consumer gets the first.
AHEAD = 20_000
#: Default limits of one listing, in lines, octets, and seconds of silence: a tape system answers after minutes.
MAX_LINES, MAX_OCTETS, LISTING_TIMEOUT = 5_000_000, 1 << 30, 900.0
#: Seconds for the answer of a server that has closed the port of a data connection without announcing data.
ANSWER_OF_NOTHING = 2.0
INCOMPLETE = (
    "The server's listing of this folder is incomplete, or has a line that this service cannot read, so it is not "
    "known what else is in the folder. Ask the administrator of the server about it, or name the files one by one."
)


class Allowance:
    """The limits of one listing: in lines, in octets, and in seconds for which the server may be silent.

    Counts all lines of the server, entries or not. A block counts as one line more than it has, so that empty blocks
    are limited too.
    """

    #: Whether the caller takes a listing that lacks entries; `incomplete` then shows whether this one does.
    partial = False

    def __init__(self, lines: int = MAX_LINES, octets: int = MAX_OCTETS, seconds: float = LISTING_TIMEOUT) -> None:
        self.seconds = seconds
        #: The first fault because of which entries are missing.
        self.incomplete: Fault | None = None
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

    def miss(self, folder: bytes, why: str) -> None:
        """Note that entries of this folder are missing. The others are still read, and `end` raises the fault."""
        if self.incomplete is None:
            raw = f"{why} (in the listing of {quoted(folder.decode('utf-8', 'surrogateescape'))})"
            self.incomplete = Fault(Kind.ENDPOINT_ERROR, retryable=False, advice=INCOMPLETE, raw=raw)

    def end(self) -> None:
        """Called after the last entry. Raises FaultError for a listing that is not complete, unless `partial`."""
        if self.incomplete and not self.partial:
            raise FaultError(self.incomplete)


def too_long(advice: str) -> FaultError:
    """The fault of a listing over its limit; it is not retried."""
    return FaultError(Fault(Kind.LIMIT_EXCEEDED, retryable=False, advice=advice))


class ListingRefusedError(FaultError):
    """The server refused to list a folder. reply: its words."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(classify(reply))
        self.reply = reply


class EntryReader:
    """Turns the lines of one listing into entries, without "." and "..".

    parse: returns the entry of a line, None for a line that stands for none; raises FactsError. begins: whether a line
    may be one of a listing at all.
    """

    def __init__(
        self,
        folder: bytes,
        allowance: Allowance,
        parse: Callable[[bytes], Entry | None] | None = None,
        begins: Callable[[bytes], bool] = begins_with_facts,
    ) -> None:
        self._folder = folder
        self._allowance = allowance
        self._parse = parse or _parse_facts
        self._begins = begins
        #: The latest entry: a line that does not begin as one may be the rest of its name.
        self._last: Entry | None = None

    def read(self, lines: Sequence[bytes]) -> Iterable[Sequence[Entry]]:
        """The entries of these lines, in portions, so that the consumer can begin before all are parsed.

        Raises FaultError for a name longer than MAX_NAME.
        """
        for start in range(0, len(lines), PORTION):
            with self._allowance.turn():
                entries = [entry for line in lines[start : start + PORTION] if (entry := self._next(line))]
            if entries:
                self._allowance.keep(entries)
                yield entries

    def end(self) -> Sequence[Entry]:
        """The last entry, if there is one. Raises FaultError for a listing that was not complete."""
        last = [self._last] if self._last else []
        self._allowance.keep(last)
        return last

    def _next(self, line: bytes) -> Entry | None:
        """The entry before this line, which is now known to be whole."""
        before = self._last
        try:
            self._last = self._parse(line) if line.strip() else None
        except FactsError:
            self._last = None
            text = f"cannot read the line {shown(line)}"
            if before is not None and not self._begins(line):
                # Some servers send the line feed in a name as it is: half of a name is no name.
                text, before = f"{text} behind {quoted(before.name)}", None
            self._allowance.miss(self._folder, text)
        return before


def _parse_facts(line: bytes) -> Entry | None:
    """An entry of MLSD or MLSC; None for the folder itself and the one above. Raises FactsError, FaultError."""
    entry = parse_line(line.removeprefix(b" "))
    if entry.kind in ("cdir", "pdir") or entry.name in (".", ".."):
        return None
    check_name(entry.name)
    return entry


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
            with connection.patient(allowance.seconds):
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
                raise ListingRefusedError(reply)
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


async def read_ahead(
    connection: ControlConnection, batches: AsyncGenerator[Sequence[Entry], None]
) -> AsyncGenerator[Sequence[Entry], None]:
    """The batches of a listing, with no other command of this connection between its beginning and its end.

    Up to AHEAD entries are read before the first is given away, so that other commands wait for the server alone. The
    commands of a longer listing's consumer are sent at once: they would wait for the consumer itself. A fault comes
    behind the entries that were read before it.
    """
    ahead: list[Sequence[Entry]] = []
    entries = 0
    fault: FaultError | None = None
    async with connection.alone(), aclosing(batches) as found:
        try:
            async for batch in found:
                ahead.append(batch)
                entries += len(batch)
                if entries > AHEAD:
                    for one in ahead:
                        yield one
                    ahead.clear()
        except FaultError as error:
            fault = error
    for one in ahead:
        yield one
    if fault:
        raise fault


async def blocks_on_data(
    connection: ControlConnection,
    path: bytes,
    allowance: Allowance,
    *,
    verb: str = "MLSD",
    argument: bytes | None = None,
    enter: bytes | None = None,
) -> AsyncGenerator[Sequence[bytes], None]:
    """MLSD (RFC 3659 section 7.2) over a data connection, for servers without MLSC; or LIST. One at a time.

    argument: of the command, by default the path. enter: a folder to enter right before. Raises ListingRefusedError
    where the server refuses the command.
    """
    await connection.ask("MODE", b"S")  # a session that belonged to a lane is still in mode E
    connect = await data_connection(connection, connection.data_tls() if connection.data_tls is not None else None)
    command = (verb, path if argument is None else argument)
    begun: list[Reply] = []
    answer = asyncio.create_task(_asked(connection, command, enter, allowance.seconds, begun.append))
    lines_seen = 0
    splitter = LineSplitter()
    try:
        # Closed here, also where the consumer leaves: the garbage collector would do it when the loop has ended.
        async with aclosing(_read_lines(connect, answer, splitter, allowance.seconds)) as found:
            async for lines in found:
                _count(connection, allowance, lines)
                lines_seen += len(lines)
                yield lines
        reply = await answer
    except (OSError, TimeoutError, FaultError) as error:
        if not (lines_seen or splitter.rest) and await _sent_nothing(answer, begun):
            return
        raise _explained(error, answer) from None
    finally:
        answer.cancel()
    if reply.is_error:
        raise ListingRefusedError(reply)
    if splitter.rest.strip():
        allowance.miss(path, f"the last line has no end: {shown(splitter.rest)}")
    if shortfall := reported_shortfall(reply, lines_seen):
        allowance.miss(path, f"the server reported that it did not list everything: {shortfall}")


def _explained(error: OSError | FaultError, answer: asyncio.Future[Reply]) -> FaultError:
    """The fault of a listing that broke off. Raises ListingRefusedError where the server has refused it."""
    if isinstance(error, FaultError):
        return error
    _raise_refusal(answer)
    return FaultError(make_fault(Kind.CONNECT_FAILED, error_text(error)))


async def _asked(
    connection: ControlConnection,
    command: tuple[str, bytes],
    enter: bytes | None,
    seconds: float,
    begun: Callable[[Reply], None],
) -> Reply:
    """The reply to the command. enter: a folder to enter, in one go: another request may enter another folder.

    begun: called with the reply that announces the data (125 or 150).
    """
    with connection.patient(seconds):
        if enter is None:
            return await connection.request(*command, begun)
        asking = connection.request("CWD", enter), connection.request(*command, begun)
        entered, reply = await asyncio.gather(*asking)
        return entered if entered.is_error else reply


async def _sent_nothing(answer: asyncio.Future[Reply], begun: Sequence[Reply]) -> bool:
    """Whether the server reports success, where it has neither announced nor sent data: the folder is empty.

    Some servers make no data connection then. The success is on its way when the port is closed, and so may be the
    reply that announces data (`begun`).
    """
    if not begun:
        await asyncio.wait((answer,), timeout=ANSWER_OF_NOTHING)
    return not begun and answer.done() and not answer.exception() and answer.result().code in (226, 250)


def _raise_refusal(answer: asyncio.Future[Reply]) -> None:
    """A reply of the server says more about the cause than an error of the socket."""
    if answer.done() and not answer.exception() and answer.result().is_error:
        raise ListingRefusedError(answer.result()) from None


class LineSplitter:
    """The lines of a listing on a data connection. rest: what has no end yet.

    CR LF ends a line (RFC 959 section 3.1.1.1), and a bare LF then belongs to a name. Where what arrives first has no
    CR LF, the server ends its lines with LF.
    """

    def __init__(self) -> None:
        self.rest = b""
        self._end: bytes | None = None

    def feed(self, data: bytes) -> Sequence[bytes]:
        """The lines that these octets complete. Raises FaultError for a line longer than MAX_LINE."""
        self.rest += data
        if self._end is None:
            if b"\n" not in self.rest:
                lines: list[bytes] = []
            else:
                self._end = b"\r\n" if b"\r\n" in self.rest else b"\n"
        if self._end is not None:
            *lines, self.rest = self.rest.split(self._end)
        if len(self.rest) > MAX_LINE or any(len(line) > MAX_LINE for line in lines):
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "a line too long in a listing", retryable=False))
        return lines


async def _read_lines(
    connect: Callable[[], Awaitable[ClientDataConnection]],
    answer: asyncio.Future[Reply],
    splitter: LineSplitter,
    seconds: float,
) -> AsyncGenerator[Sequence[bytes], None]:
    """The lines of a data connection. Raises OSError and TimeoutError of connecting, FaultError of all that follows."""
    async with asyncio.timeout(CONNECT_TIMEOUT):
        data_connection = await connect()
    data_connection.abort_if_refused(answer)
    try:
        while data := await _read(data_connection, answer, seconds):
            yield splitter.feed(data)
    finally:
        data_connection.abort()


async def _read(connection: ClientDataConnection, answer: asyncio.Future[Reply], seconds: float) -> bytes:
    """The next octets. Once the server has answered, what it sent before must arrive soon. Raises FaultError."""
    reading = asyncio.ensure_future(connection.read())
    try:
        if not answer.done():
            waiting: set[asyncio.Future[Any]] = {reading, answer}
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(STALL_TIMEOUT if answer.done() else 0):
            return await reading
    except TimeoutError:
        raise FaultError(session_fault(Kind.TIMEOUT, f"no more of a listing within {seconds:g} s")) from None
    except OSError as error:
        _raise_refusal(answer)
        raise FaultError(session_fault(Kind.CONNECTION_RESET, error_text(error))) from None
    finally:
        reading.cancel()


def check_name(name: str) -> None:
    """Raises FactsError for what cannot be the name of an entry, and FaultError for a name longer than MAX_NAME."""
    if not name or "/" in name or "\0" in name:
        raise FactsError(f"not the name of an entry: {quoted(name)}")
    if len(name) > MAX_NAME:
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, f"a name of more than {MAX_NAME} octets", retryable=False))
