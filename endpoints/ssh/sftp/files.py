"""Files on an SFTP server, with many requests in flight: bounded in octets, delivered in the order of the file.

SFTP answers each request of 256 KiB at most. With one at a time a server at 60 ms would give 4 MB/s.

The status of a reply (draft-ietf-secsh-filexfer-02 section 7) and a lost connection become faults.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar, cast

import asyncssh

from endpoints.gridftp.connection import STALL_TIMEOUT, session_fault
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.streams.file_streams import PIECE, OctetShare
from identity.gsi.printable import error_text

_KINDS: tuple[tuple[type[asyncssh.SFTPError], Kind], ...] = (
    (asyncssh.SFTPNoSuchFile, Kind.FILE_NOT_FOUND),
    (asyncssh.SFTPNoSuchPath, Kind.FILE_NOT_FOUND),
    (asyncssh.SFTPPermissionDenied, Kind.PERMISSION_DENIED),
    (asyncssh.SFTPWriteProtect, Kind.PERMISSION_DENIED),
    (asyncssh.SFTPOpUnsupported, Kind.UNSUPPORTED),
    (asyncssh.SFTPFileAlreadyExists, Kind.PATH_EXISTS),
    (asyncssh.SFTPNoSpaceOnFilesystem, Kind.NO_SPACE_LEFT),
    (asyncssh.SFTPQuotaExceeded, Kind.QUOTA_EXCEEDED),
    (asyncssh.SFTPDirNotEmpty, Kind.DIRECTORY_NOT_EMPTY),
    (asyncssh.SFTPNotADirectory, Kind.NOT_A_DIRECTORY),
    (asyncssh.SFTPFileIsADirectory, Kind.IS_A_DIRECTORY),
    (asyncssh.SFTPInvalidFilename, Kind.INVALID_PATH_NAME),
)
#: Errors after which the session cannot be used any more.
_LOST = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.SFTPBadMessage)


def fault_of(error: Exception) -> Fault:
    """The fault of an error of asyncssh. A plain "Failure" of a server is UNKNOWN: its caller may know more."""
    if isinstance(error, asyncssh.SFTPError) and not isinstance(error, _LOST):
        kind = next((kind for status, kind in _KINDS if isinstance(error, status)), Kind.UNKNOWN)
        return make_fault(kind, f"SFTP: {error.reason or 'Failure'}", retryable=kind is not Kind.INVALID_PATH_NAME)
    if isinstance(error, TimeoutError):
        return session_fault(Kind.TIMEOUT, "the SFTP server was silent")
    if isinstance(error, asyncssh.ChannelOpenError):
        advice = "The server does not let this account use SFTP."
        refused = make_fault(Kind.ENDPOINT_ERROR, error_text(error))
        return replace(refused, scope=FaultScope.ENDPOINT, advice=advice)
    return session_fault(Kind.CONNECTION_BROKEN, error_text(error))


_T = TypeVar("_T")
#: Octets of one file that are requested, or sent and not acknowledged: 1 Gbit/s at 60 ms.
WINDOW = 8 * 2**20
#: Requests are never smaller, whatever a server says about its limits.
SMALLEST = 16 * 1024
#: How often silence is looked for, in parts of STALL_TIMEOUT.
LOOKS = 4
#: A request that others overtake is lost after so many times STALL_TIMEOUT.
OVERTAKEN = 10


class Answers:
    """Waits for the answers of one session. unsent: octets that its channels have not sent yet.

    A session is silent while no octet comes on its channels and none of the octets that wait can be sent. The oldest
    request may be overtaken by others for a while. The limit is not one of each request: a request waits behind all
    that were sent before it, behind WINDOW octets of each file, which a slow line carries in minutes.
    """

    def __init__(self, unsent: Callable[[], int] = lambda: 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._unsent = unsent
        self._sent = 0
        self._moved_at = self._oldest_since = self._loop.time()
        #: The limits of the requests without an answer, the oldest first, with the silence that each may take.
        self._waiting: dict[asyncio.Timeout, float] = {}
        self._look: asyncio.TimerHandle | None = None

    def moved(self) -> None:
        """Octets of an answer have come."""
        self._moved_at = self._loop.time()

    async def wait(self, asking: Awaitable[_T], seconds: float = 0.0) -> _T:
        """The answer to a request. Raises FaultError, also after STALL_TIMEOUT, or more, `seconds` of silence."""
        try:
            async with asyncio.timeout(None) as limit:
                with self._counted(limit, max(STALL_TIMEOUT, seconds)):
                    return await asking
        except (asyncssh.Error, asyncssh.SFTPError, OSError, EOFError, TimeoutError, ValueError) as error:
            raise FaultError(fault_of(error)) from None

    # ---- inside

    @contextmanager
    def _counted(self, limit: asyncio.Timeout, seconds: float) -> Iterator[None]:
        if not self._waiting:
            self._moved_at = self._oldest_since = self._loop.time()
        self._waiting[limit] = seconds
        if self._look is None:
            self._look_later()
        try:
            yield
        finally:
            if next(iter(self._waiting)) is limit:
                self._oldest_since = self._loop.time()
            del self._waiting[limit]

    def _look_later(self) -> None:
        self._look = self._loop.call_later(STALL_TIMEOUT / LOOKS, self._look_at_it)

    def _look_at_it(self) -> None:
        """Time out all requests if the session is silent."""
        self._look = None
        if not self._waiting:
            return
        now, unsent = self._loop.time(), self._unsent()
        if unsent != self._sent:
            self._sent, self._moved_at = unsent, now
        longest = max(self._waiting.values())
        if now - self._moved_at >= longest or now - self._oldest_since >= max(longest, OVERTAKEN * STALL_TIMEOUT):
            for limit in self._waiting:
                limit.reschedule(now)
        else:
            self._look_later()


class SftpReader:
    """Reads an open file. expected: its size where it is known, so that few requests go beyond its end.

    The file must have the same size and modification time after its last octet as before its first one: else the
    octets may belong to two versions. Raises FaultError (FILE_SIZE_CHANGED).
    """

    def __init__(
        self,
        file: asyncssh.SFTPClientFile,
        answers: Answers,
        share: OctetShare,
        offset: int,
        expected: int,
        piece: int,
    ) -> None:
        self._file = file
        self._answers = answers
        self._share = share
        self._asked = self._position = offset
        self._expected = expected
        self._piece = max(SMALLEST, min(PIECE, piece))
        self._in_flight: deque[tuple[int, asyncio.Task[bytes]]] = deque()
        self._before = asyncio.create_task(answers.wait(file.stat()))

    async def read(self) -> bytes:
        """The next octets; b"" at the end."""
        await self._ask_ahead()
        size, task = self._in_flight.popleft()
        try:
            data = await task
        except BaseException:
            self._share.give(size)
            raise
        while 0 < len(data) < size and (more := await self._read_at(self._position + len(data), size - len(data))):
            data += more
        self._share.give(size - len(data))
        self._position += len(data)
        if not data:
            await self._end()
        elif self._position > self._expected:
            await self._check_growth()
        return data

    async def close(self) -> None:
        """Give up the requests in flight, and close the file."""
        waiting = [task for _, task in self._in_flight]
        self._in_flight.clear()
        for task in (*waiting, self._before):
            task.cancel()
        await asyncio.gather(*waiting, self._before, return_exceptions=True)
        await _close(self._file)

    async def _ask_ahead(self) -> None:
        """Request as much as the window allows; of a file that has its expected size, once beyond the end."""
        while not self._in_flight or (self._asked <= self._expected and self._room()):
            if not self._share.try_take(self._piece):
                if self._in_flight:
                    return
                await self._share.take(self._piece)
            task = asyncio.create_task(self._read_at(self._asked, self._piece))
            self._in_flight.append((self._piece, task))
            self._asked += self._piece

    def _room(self) -> bool:
        return len(self._in_flight) * self._piece < WINDOW

    async def _read_at(self, offset: int, size: int) -> bytes:
        data = cast(bytes, await self._answers.wait(self._file.read(size, offset)))
        if len(data) > size:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "the SFTP server sent more than was asked for"))
        return data

    async def _check_growth(self) -> None:
        """A file that is written faster than it is read has no end."""
        before = await asyncio.shield(self._before)
        if before.size is not None and self._position > before.size:
            raw = f"{before.size} octets when the file was opened, and more than {self._position - 1} now"
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw, side=Side.SOURCE))

    async def _end(self) -> None:
        """Check that the file is the one that was opened."""
        after, before = await asyncio.gather(self._answers.wait(self._file.stat()), asyncio.shield(self._before))
        if (after.size, after.mtime) != (before.size, before.mtime) or after.size != self._position:
            raw = f"{before.size} octets when the file was opened, {after.size} at its end, {self._position} were read"
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw, side=Side.SOURCE))


class SftpWriter:
    """Writes open files: handles of the same file on one channel or several, each with a window of its own.

    explain: finds out more about a plain "Failure". size: asks for the octets of the file by its path.
    """

    def __init__(
        self,
        files: Sequence[asyncssh.SFTPClientFile],
        answers: Answers,
        share: OctetShare,
        offset: int,
        piece: int,
        explain: Callable[[Fault], Awaitable[Fault]],
        size: Callable[[], Awaitable[int | None]],
    ) -> None:
        self._size = size
        self._files = files
        self._answers = answers
        self._share = share
        self._offset = offset
        self._piece = max(SMALLEST, min(PIECE, piece))
        self._explain = explain
        self._stored = offset
        #: Ends of acknowledged pieces that follow one which is not acknowledged yet, by their beginnings.
        self._beyond: dict[int, int] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._octets = 0
        self._turn = 0
        self._fault: FaultError | None = None
        self._room = asyncio.Event()

    @property
    def stored(self) -> int:
        """`FileWriter.stored`: acknowledged without a gap."""
        return self._stored

    async def write(self, data: bytes) -> None:
        """`FileWriter.write`."""
        for start in range(0, len(data), self._piece):
            await self._wait(WINDOW)
            piece = data[start : start + self._piece] if len(data) > self._piece else data
            self._octets += len(piece)
            self._turn = (self._turn + 1) % len(self._files)
            task = asyncio.create_task(self._send(self._files[self._turn], self._offset, piece))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
            self._offset += len(piece)

    async def finish(self) -> None:
        """`FileWriter.finish`."""
        await self._wait(1)
        if self._stored != self._offset:
            raise FaultError(make_fault(Kind.INTERNAL_ERROR, f"{self._stored} of {self._offset} octets acknowledged"))
        first, *others = self._files
        for file in others:
            await self._answers.wait(file.close())
        # Sent together: the handle shows the size before it is closed, without a round trip more.
        shown, _ = await asyncio.gather(self._shown_size(first), self._answers.wait(first.close()))
        if shown != self._offset and (await self._size()) not in (None, self._offset):
            raw = f"{self._offset} octets were written, and the file has {shown}"
            raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw))

    async def confirm(self) -> None:
        """`FileWriter.confirm`: the file has its name already, whatever it contains."""
        await self.finish()

    async def _shown_size(self, file: asyncssh.SFTPClientFile) -> int | None:
        """The size by its handle; None where it is not shown. Servers may confirm what they do not store."""
        try:
            return (await self._answers.wait(file.stat())).size
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return None

    async def close(self) -> None:
        """`FileWriter.close`. Requests that were sent may still be executed."""
        waiting = list(self._in_flight)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for file in self._files:
            await _close(file)

    async def settle(self) -> None:
        """Wait until no request is in flight any more, whatever their answers are."""
        while self._octets:
            self._room.clear()
            await self._room.wait()

    async def _wait(self, below: int) -> None:
        """Wait until fewer octets are in flight. Raises the first FaultError."""
        while self._octets >= below and self._fault is None:
            self._room.clear()
            await self._room.wait()
        if self._fault is not None:
            await self.settle()
            raise FaultError(await self._explain(self._fault.fault))

    async def _send(self, file: asyncssh.SFTPClientFile, offset: int, piece: bytes) -> None:
        try:
            await self._answers.wait(file.write(piece, offset))
            self._acknowledged(offset, offset + len(piece))
        except Exception as error:
            unexpected = make_fault(Kind.INTERNAL_ERROR, type(error).__name__)
            self._fault = self._fault or (error if isinstance(error, FaultError) else FaultError(unexpected))
        finally:
            self._octets -= len(piece)
            self._share.give(len(piece))
            self._room.set()

    def _acknowledged(self, start: int, end: int) -> None:
        self._beyond[start] = end
        while self._stored in self._beyond:
            self._stored = self._beyond.pop(self._stored)


async def _close(file: asyncssh.SFTPClientFile) -> None:
    """Close a file that is given up: no answer is waited for longer than it takes to send the request."""
    closing = asyncio.ensure_future(file.close())
    closing.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.sleep(0)
