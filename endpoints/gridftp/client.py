"""A thin asyncio client over the pure machines: one control connection, logged in, with commands pipelined.

Errors: every method raises FaultError; after a fault of scope SESSION the connection is of no more use.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ssl import SSLError
from typing import Self, TypeVar, cast

from .commands import CommandError, parse_extended_port
from .control import Answered, ControlChannel, ControlEvent, Greeting, Lost, Preliminary
from .facts import Entry, FactsError, parse_line
from .faults import Fault, FaultError, Kind, Scope, classify, make_fault
from .replies import Reply

#: Seconds for a connection to be made, and for the greeting and the login together.
CONNECT_TIMEOUT = 15.0
#: Seconds in which something must arrive while an answer is due. Servers answer even the slowest command
#: (a checksum, a listing of a cold disk) within this, or send preliminary replies.
STALL_TIMEOUT = 90.0
#: Commands under way at once on one connection: the toolkit's server drops a client at 1000.
MAX_PIPELINE = 300
#: Listing blocks held for a slow consumer before reading from the server pauses.
MAX_BLOCKS = 16

#: Lines of a listing read at once: some milliseconds of work.
PORTION = 500

#: Facts asked for: what a scan needs (Unique tells a file by two names from two files), and what a person wants to
#: see in a listing besides.
SCAN_FACTS = "Type;Size;Modify;Unique;UNIX.slink;"
LIST_FACTS = "Type;Size;Modify;UNIX.mode;UNIX.owner;UNIX.group;UNIX.slink;"


_T = TypeVar("_T")


@dataclass(slots=True)
class _Pending:
    """A command somebody awaits."""

    answer: asyncio.Future[Reply]
    on_preliminary: Callable[[Reply], None] | None = None


class ControlConnection(asyncio.Protocol):
    """A control channel on a TCP connection.

    Events of commands sent by `ask` and `request` go to their futures; all others, as many as arrived together,
    to `listener`, which also hears of the loss of the connection.
    """

    def __init__(self, *, stall_timeout: float | None = STALL_TIMEOUT) -> None:
        self.channel = ControlChannel()
        self.listener: Callable[[Sequence[ControlEvent]], None] | None = None
        self.stall_timeout = stall_timeout
        self.last_activity = 0.0
        self.lost: Fault | None = None
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        #: Seconds that the connection took to be made: one round trip.
        self.round_trip: float | None = None
        self._greeting: asyncio.Future[Reply] = self._loop.create_future()
        self._window = asyncio.Semaphore(MAX_PIPELINE)
        self._flush_due = False
        self._watch: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Connect and wait for the greeting. Raises FaultError(CONNECT_FAILED, TIMEOUT, ENDPOINT_ERROR ...)."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(timeout):
                _, connection = await loop.create_connection(cls, host, port)
                connection.round_trip = loop.time() - begun
                try:
                    await asyncio.shield(connection._greeting)
                except BaseException:
                    connection.abort()
                    raise
        except TimeoutError:
            raise FaultError(_session_fault(Kind.TIMEOUT, f"no greeting within {timeout:g} s")) from None
        except (OSError, SSLError) as error:
            raise FaultError(_session_fault(Kind.CONNECT_FAILED, str(error), Scope.ENDPOINT)) from None
        return connection

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.last_activity = self._loop.time()
        self._watch_later()

    def data_received(self, data: bytes) -> None:
        self.last_activity = self._loop.time()
        self._dispatch(self.channel.receive(data))
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch:
            self._watch.cancel()
        fault = _session_fault(Kind.CONNECTION_RESET, str(exc)) if exc else None
        self._dispatch(self.channel.receive_eof(fault))

    # ---- use

    @property
    def usable(self) -> bool:
        return self.lost is None and self._transport is not None and not self._transport.is_closing()

    @property
    def peer_host(self) -> str:
        """The address this connection goes to."""
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername")[0])

    def flush(self) -> None:
        """Write what the channel holds."""
        self._flush_due = False
        data = self.channel.data_to_send()
        if data and self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def flush_soon(self) -> None:
        """Write when the caller is done queueing: many commands, one segment."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    async def request(
        self, verb: str, argument: bytes = b"", on_preliminary: Callable[[Reply], None] | None = None
    ) -> Reply:
        """Send a command, wait for its final reply, whatever it is. Raises FaultError when the connection is lost."""
        async with self._window:
            if self.lost:
                raise FaultError(self.lost)
            pending = _Pending(self._loop.create_future(), on_preliminary)
            try:
                self.channel.send(verb, argument, tag=pending)
            except CommandError as error:
                raise FaultError(make_fault(Kind.INVALID_PATH_NAME, str(error), retryable=False)) from None
            self.flush_soon()
            return await pending.answer

    async def ask(self, verb: str, argument: bytes = b"") -> Reply:
        """`request`, and an error reply raises FaultError too."""
        reply = await self.request(verb, argument)
        if reply.is_error:
            raise FaultError(classify(reply))
        return reply

    def abort(self, fault: Fault | None = None) -> None:
        """End the connection now; what is unanswered is lost with `fault`."""
        self._dispatch(self.channel.receive_eof(fault))
        if self._transport:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    # ---- inside

    def _dispatch(self, events: Iterable[ControlEvent]) -> None:
        others = [event for event in events if not self._settle(event)]
        if others and self.listener:
            self.listener(others)
        if self.lost and self._transport:
            self._transport.abort()

    def _settle(self, event: ControlEvent) -> bool:
        """Whether the event was one for our own futures only."""
        if isinstance(event, Answered | Preliminary):
            tag = event.command.tag
            if not isinstance(tag, _Pending):
                return False
            if isinstance(event, Preliminary):
                if tag.on_preliminary:
                    tag.on_preliminary(event.reply)
            elif not tag.answer.done():
                tag.answer.set_result(event.reply)
            return True
        if isinstance(event, Greeting):
            self._greeting.set_result(event.reply)
            return True
        self._lose(event)
        return False

    def _lose(self, event: Lost) -> None:
        self.lost = event.fault
        for command in event.unanswered:
            if isinstance(command.tag, _Pending) and not command.tag.answer.done():
                command.tag.answer.set_exception(FaultError(event.fault))
        if not self._greeting.done():
            self._greeting.set_exception(FaultError(event.fault))
            self._greeting.exception()  # looked at: after a time limit nobody else will

    def _watch_later(self) -> None:
        self._watch = self._loop.call_later(5.0, self._check_stall)

    def _check_stall(self) -> None:
        limit = self.stall_timeout
        silent = self._loop.time() - self.last_activity
        if limit is not None and self.channel.unanswered and silent > limit:
            self.abort(_session_fault(Kind.TIMEOUT, f"no answer for {silent:.0f} s"))
        elif self.lost is None:
            self._watch_later()


def _session_fault(kind: Kind, raw: str, scope: Scope = Scope.SESSION) -> Fault:
    fault = make_fault(kind, raw)
    return Fault(fault.kind, fault.side, True, scope, fault.advice, fault.raw)


class GridFTPSession:
    """One logged-in control connection, for looking and for small changes. Its methods may run side by side."""

    def __init__(self, connection: ControlConnection) -> None:
        self.connection = connection
        self.features: frozenset[str] = frozenset()
        #: Checksums that the server can make, the one it likes best first (FEAT CKSM).
        self.algorithms: Sequence[str] = ()
        self.home = "/"
        self._marks_checksums = False
        #: A second EPSV would take the address of the first away.
        self._listening = asyncio.Lock()

    @classmethod
    async def open(cls, host: str, port: int, *, facts: str = SCAN_FACTS, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Connect and log in as anonymous. Raises FaultError."""
        connection = await ControlConnection.open(host, port, timeout=timeout)
        session = cls(connection)
        try:
            async with asyncio.timeout(timeout):
                await session._login(facts)
        except TimeoutError:
            connection.abort()
            raise FaultError(_session_fault(Kind.TIMEOUT, f"no login within {timeout:g} s")) from None
        except BaseException:
            connection.abort()
            raise
        return session

    async def _login(self, facts: str) -> None:
        """All in one go: a login costs one round trip after the greeting."""
        request = self.connection.request
        user, password, features, home, binary, _ = await asyncio.gather(
            request("USER", b"anonymous"),
            request("PASS", b"waybill@"),
            request("FEAT"),
            request("PWD"),
            request("TYPE", b"I"),
            request("OPTS", b"MLST " + facts.encode()),
        )
        if user.is_error or (user.code != 230 and password.is_error):
            raise FaultError(classify(user if user.is_error else password))
        if binary.is_error:
            raise FaultError(classify(binary))
        if not features.is_error:
            names = (line.strip().split(b" ")[0].upper() for line in features.lines[1:-1])
            self.features = frozenset(name.decode("ascii", "replace") for name in names)
            self.algorithms = _algorithms(features)
        self.home = _quoted_path(home) or "/"

    @property
    def usable(self) -> bool:
        return self.connection.usable

    @property
    def round_trip(self) -> float | None:
        """Seconds between a question and its answer, as seen when the connection was made."""
        return self.connection.round_trip

    @property
    def eight_bit_clean(self) -> bool:
        """Whether names beyond ASCII survive the way to the server.

        The toolkit's server says UTF8 and yet strips octets above 127 from clear-text commands; DSI gives it away.
        """
        return "UTF8" in self.features and "DSI" not in self.features

    @property
    def resolves_links(self) -> bool:
        """Whether the server tells of a symlink the full path of what it leads to in the end, rather than its text."""
        return "DSI" in self.features

    def encode_path(self, path: str) -> bytes:
        """A path as it goes over the wire: absolute, `/~/` taken from the home. Raises FaultError."""
        if path == "/~" or path.startswith("/~/"):
            path = self.home.rstrip("/") + "/" + path[3:]
        octets = path.encode("utf-8", "surrogateescape")
        if not octets.startswith(b"/"):
            raise FaultError(make_fault(Kind.INVALID_PATH_NAME, f"not an absolute path: {path!r}", retryable=False))
        if not self.eight_bit_clean and not octets.isascii():
            advice = "This endpoint cannot take names beyond ASCII over an unprotected control channel."
            raise FaultError(Fault(Kind.INVALID_PATH_NAME, retryable=False, advice=advice, raw=repr(path)))
        return octets

    async def stat(self, path: str) -> Entry:
        """Facts of one thing (MLST, RFC 3659 section 7.2); its name is the last component of the path."""
        reply = await self.connection.ask("MLST", self.encode_path(path))
        try:
            entry = parse_line(reply.lines[1].removeprefix(b" "))
        except (IndexError, FactsError) as error:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"MLST: {error}")) from None
        return replace(entry, name=entry.name.rstrip("/").rpartition("/")[2] or "/")

    async def listing(self, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder in batches, without "." and "..". Raises FaultError, also half-way."""
        blocks = self._listing_blocks if "MLSC" in self.features else self._data_blocks
        async for lines in blocks(self.encode_path(path)):
            for portion in _portions(lines):
                entries = _parse_lines(portion)
                if entries:
                    yield entries

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """MKD for each, pipelined, in this order; False for one that was there already, which is fine."""
        made: list[bool] = []
        for window in _windows(paths, MAX_PIPELINE):
            encoded = [self.encode_path(path) for path in window]
            replies = await asyncio.gather(*(self.connection.request("MKD", path) for path in encoded))
            for path, reply in zip(window, replies, strict=True):
                if reply.is_error:
                    await self._be_a_directory(path, reply)
                made.append(not reply.is_error)
        return made

    async def _be_a_directory(self, path: str, reply: Reply) -> None:
        """Servers say "exists" in many ways: a look is surer than the words."""
        fault = classify(reply)
        try:
            entry = await self.stat(path)
        except FaultError:
            raise FaultError(fault) from None
        if not entry.is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, f"{path}: {fault.raw}"))

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """DELE or RMD each (path, is_directory), pipelined, in this order; None where it went well."""
        outcome: list[Fault | None] = []
        for window in _windows(entries, MAX_PIPELINE):
            outcome += await asyncio.gather(*(self._remove(path, folder) for path, folder in window))
        return outcome

    async def _remove(self, path: str, folder: bool) -> Fault | None:
        try:
            await self.connection.ask("RMD" if folder else "DELE", self.encode_path(path))
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return error.fault
        return None

    async def make_directory(self, path: str) -> None:
        """MKD; an existing path raises FaultError(PATH_EXISTS)."""
        await self.connection.ask("MKD", self.encode_path(path))

    async def rename(self, old: str, new: str) -> None:
        """RNFR and RNTO in one go."""
        source, target = self.encode_path(old), self.encode_path(new)
        ask = self.connection.ask
        first, second = await asyncio.gather(ask("RNFR", source), ask("RNTO", target), return_exceptions=True)
        for outcome in (first, second):
            if isinstance(outcome, BaseException):
                raise outcome

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file (CKSM, GFD.47), hexadecimal, lower case.

        Markers are asked for, so that a large file takes as long as it takes and a hung server is still noticed.
        """
        encoded = self.encode_path(path)
        if not self._marks_checksums:
            self._marks_checksums = True
            markers = asyncio.create_task(self.connection.request("OPTS", b"CKSM Markers=5;"))
            markers.add_done_callback(lambda done: done.cancelled() or done.exception())
        reply = await self.connection.ask("CKSM", b"%s 0 -1 %s" % (algorithm.encode("ascii"), encoded))
        value = str(reply).split()[-1].lower()
        if not value or set(value) - set("0123456789abcdef"):
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"CKSM: {reply}"))
        return value

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set modification times (MFMT, draft-somers-ftp-mfxx), pipelined; None where it went well."""
        outcome: list[Fault | None] = []
        for window in _windows(files, MAX_PIPELINE):
            outcome += await asyncio.gather(*(self._set_modified(path, modified) for path, modified in window))
        return outcome

    async def _set_modified(self, path: str, modified: datetime) -> Fault | None:
        stamp = modified.astimezone(UTC).strftime("%Y%m%d%H%M%S")
        try:
            await self.connection.ask("MFMT", stamp.encode() + b" " + self.encode_path(path))
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return error.fault
        return None

    async def make_symlink(self, target: str, path: str) -> None:
        """SITE SYMLINKFROM and SYMLINKTO in one go; a link that leads there already is fine. The target is any text.

        What else stands there raises FaultError(PATH_EXISTS).
        """
        octets = target.encode("utf-8", "surrogateescape")
        if not self.eight_bit_clean and not octets.isascii():
            advice = "This endpoint cannot take names beyond ASCII over an unprotected control channel."
            raise FaultError(Fault(Kind.INVALID_PATH_NAME, retryable=False, advice=advice, raw=repr(target)))
        new = self.encode_path(path)
        request = self.connection.request
        first, second = await asyncio.gather(
            request("SITE", b"SYMLINKFROM " + octets), request("SITE", b"SYMLINKTO " + new)
        )
        if not second.is_error:
            return
        try:
            there = await self.stat(path)
        except FaultError:
            raise FaultError(classify(first if first.is_error else second)) from None
        if there.link_target != target:
            raise FaultError(make_fault(Kind.PATH_EXISTS, str(second)))

    async def close(self) -> None:
        """QUIT, and do not wait long for the answer."""
        try:
            async with asyncio.timeout(1.0):
                await self.connection.request("QUIT")
        except (TimeoutError, FaultError):
            pass
        self.connection.abort()

    # ---- listings

    async def _listing_blocks(self, path: bytes) -> AsyncGenerator[Sequence[bytes], None]:
        """MLSC: over the control channel; a long one comes as several preliminary replies, then the final one."""
        blocks: asyncio.Queue[Reply | FaultError] = asyncio.Queue()

        def take(reply: Reply) -> None:
            blocks.put_nowait(reply)
            if blocks.qsize() > MAX_BLOCKS:
                self.connection.pause()

        async def run() -> None:
            try:
                blocks.put_nowait(await self.connection.request("MLSC", path, take))
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
                    self.connection.resume()
                yield reply.lines[1:-1]
                if not reply.is_preliminary:
                    return
        finally:
            self.connection.resume()
            runner.cancel()

    async def _data_blocks(self, path: bytes) -> AsyncGenerator[Sequence[bytes], None]:
        """MLSD (RFC 3659 section 7.2) over a data connection, for servers without MLSC.

        The connection goes to the host of the control connection, whatever address the server names: a server
        must not be able to make this service connect somewhere else.
        """
        async with self._listening:
            async for lines in self._mlsd(path):
                yield lines

    async def _mlsd(self, path: bytes) -> AsyncGenerator[Sequence[bytes], None]:
        await self.connection.ask("MODE", b"S")  # a session that was a lane's is still in mode E
        passive = await self.connection.ask("EPSV")
        try:
            port = parse_extended_port(b" ".join(passive.lines))
        except CommandError as error:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, str(error))) from None
        answer = asyncio.create_task(self.connection.request("MLSD", path))
        try:
            async for lines in self._read_lines(port):
                yield lines
            reply = await answer
            if reply.is_error:
                raise FaultError(classify(reply))
        except (OSError, TimeoutError) as error:
            # What the server says of it tells more than the socket does, if it says anything.
            if answer.done() and not answer.exception() and answer.result().is_error:
                raise FaultError(classify(answer.result())) from None
            raise FaultError(make_fault(Kind.CONNECT_FAILED, str(error))) from None
        finally:
            answer.cancel()

    async def _read_lines(self, port: int) -> AsyncGenerator[Sequence[bytes], None]:
        """The lines of a data connection until its end. Raises OSError, TimeoutError."""
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(self.connection.peer_host, port)
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


def _algorithms(features: Reply) -> Sequence[str]:
    """The line `CKSM MD5:10;SHA1:10;SHA256:11;` of FEAT: names with their preference, the lowest first."""
    for line in features.lines[1:-1]:
        word, _, rest = line.strip().decode("ascii", "replace").partition(" ")
        if word.upper() == "CKSM":
            pairs = (part.strip().partition(":")[::2] for part in rest.split(";") if part.strip())
            known = [(int(rank) if rank.isdigit() else 99, name.strip().upper()) for name, rank in pairs]
            return [name for _, name in sorted(known, key=lambda pair: pair[0])]
    return ()


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


def _windows(things: Sequence[_T], size: int) -> Iterable[Sequence[_T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def _quoted_path(reply: Reply) -> str | None:
    """The path in `257 "/home/x" ...` (RFC 959 appendix II: a quote in it is doubled)."""
    text = reply.text
    start, end = text.find('"'), text.rfind('"')
    if reply.code != 257 or start == end:
        return None
    return text[start + 1 : end].replace('""', '"')
