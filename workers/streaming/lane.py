"""A lane whose files pass through this worker (ports.Lane): one session to each side, for as long as the lane lives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.digest import ALGORITHMS, Digest
from endpoints.gridftp.streams.file_streams import FileReader, FileWriter, OctetShare
from endpoints.gridftp.streams.restarts import may_write_from, note_not_written
from endpoints.gridftp.third_party.growth import SizeOf
from endpoints.gridftp.third_party.slots import (
    FileEvent,
    FileProgress,
    FileRefused,
    FileReturned,
    FileSettled,
)
from endpoints.sessions.remote import open_reader, open_writer
from transferapi.tasks.records import Checksum, DataProtection, DataWay, FileRow
from workers.engine.ports import TCP
from workers.engine.settle.arrival import LATER, octets, readable
from workers.engine.settle.checksums import common_algorithm
from workers.engine.work import cancel_all
from workers.sessions.pooled_sessions import PooledSession, fault_for_user

from .file_copy import FileCopy, at_side
from .host import TaskStreams

#: Seconds between two reports of progress of one file.
PROGRESS = 1.0
#: Kinds with which servers refuse to continue a file.
_REFUSALS = frozenset({Kind.UNKNOWN, Kind.UNSUPPORTED, Kind.PERMISSION_DENIED, Kind.ENDPOINT_ERROR})
#: Octets that a file may grow by after the scan, beside its size of the scan.
GROWTH = 2**30


@dataclass(slots=True)
class _Under:
    """A file under way."""

    file: FileRow
    task: asyncio.Task[None] | None = None
    copy: FileCopy | None = None
    #: The last report, in octets, and its time.
    reported: int = 0
    reported_at: float = 0.0
    offset: int = 0
    #: Octets that the destination has, by its own words after its connection was lost.
    told: int = 0
    #: The destination has reported that it has all of it, under its temporary name.
    arrived: bool = False
    #: False once the destination has refused to begin behind what is there.
    restarts: bool = True

    @property
    def on_disk(self) -> RangeSet | None:
        """The beginning of the file that the destination has stored; None: nothing of it."""
        stored = max(self.copy.stored, self.told) if self.copy else self.offset
        return RangeSet([(0, stored)]) if stored else None


class StreamedLane:
    """Moves files one after the other, or as many at once as both sessions can carry.

    give_back: takes a clean session for the pool. verify: whether checksums of all files are compared later.
    encrypt: nothing may travel in clear. size_of: asks the destination for the octets of a path, on another session.
    """

    def __init__(
        self,
        source: PooledSession,
        destination: PooledSession,
        streams: TaskStreams,
        *,
        protection: DataProtection,
        data_way: DataWay,
        give_back: Callable[[PooledSession], None],
        verify: bool,
        encrypt: bool,
        size_of: SizeOf | None = None,
    ) -> None:
        self._size_of = size_of
        self.protection = protection
        self.data_way: DataWay | None = data_way
        self._source = source
        self._destination = destination
        self._streams = streams
        self._give_back = give_back
        self._verify = verify
        self._encrypt = encrypt
        self._loop = asyncio.get_running_loop()
        self._under: dict[int, _Under] = {}
        self._events: list[FileEvent] = []
        self._ready = asyncio.Event()
        self._lost = False
        #: A data connection carries one file at a time.
        self._turn = asyncio.Lock() if not (source.multiplexed and destination.multiplexed) else None

    # ---- ports.Lane

    #: Between each server and this service.
    transport = TCP

    @property
    def alive(self) -> bool:
        """`ports.Lane.alive`."""
        return not self._lost

    def use_streams(self, parallelism: int) -> None:
        """One stream a file: the plan's parallelism has no meaning here."""

    @property
    def renaming(self) -> int:
        """`ports.Lane.renaming`: nothing waits behind a name here."""
        return 0

    @property
    def begun(self) -> Sequence[FileRow]:
        """`ports.Lane.begun`."""
        return [one.file for one in self._under.values() if self._has_begun(one)]

    def _has_begun(self, one: _Under) -> bool:
        """Whether a partial file lies under its real name."""
        begun = bool(one.copy and one.copy.begun) and not one.file.temporary_path
        return begun and not self._destination.inner.appears_whole

    def feed(self, file: FileRow) -> None:
        """`ports.Lane.feed`."""
        one = self._under[file.id] = _Under(readable(file))
        one.task = self._loop.create_task(self._run(one))

    async def events(self) -> Sequence[FileEvent]:
        """`ports.Lane.events`."""
        await self._ready.wait()
        self._ready.clear()
        events, self._events = self._events, []
        return events

    async def close(self) -> None:
        """Stop the files under way at once; sessions without any go back to the pool.

        The sessions end also where this is canceled because the files take too long to stop.
        """
        clean = not self._under and not self._lost
        self._lost = True
        try:
            await cancel_all(one.task for one in self._under.values() if one.task)
        finally:
            for session in (self._source, self._destination):
                if clean and session.inner.usable:
                    self._give_back(session)
                else:
                    session.inner.abort()

    # ---- one file

    async def _run(self, one: _Under) -> None:
        """Move a file, and report its end by exactly one event."""
        try:
            async with self._turn or contextlib.nullcontext():
                if self._lost:
                    return self._ended(one, FileReturned(one.file, suspect=False))
                async with self._streams.host.streams:
                    size = await self._move(one)
            self._ended(one, FileSettled(one.file, _received(one, size)))
        except RestartRefusedError as error:
            if error.fault.side is Side.DESTINATION:
                self._note_not_continued(one)
            one.restarts = False
            await self._refused(one, error.fault)
        except FaultError as error:
            await self._ask_what_is_there(one, error.fault)
            await self._refused(one, error.fault)
        except Exception as error:
            await self._refused(one, make_fault(Kind.INTERNAL_ERROR, f"{type(error).__name__} in a stream"))

    async def _move(self, one: _Under) -> int:
        """Returns the size of the file, which is complete at the destination, under its own name."""
        file = one.file
        source = self._source.plain_path(file.source_path)
        target = self._destination.plain_path(file.destination_path or "")
        temporary = self._destination.plain_path(file.temporary_path) if file.temporary_path else ""
        whole = self._destination.inner.appears_whole
        written = target if whole else temporary or target
        one.offset = _offset(file) if self._may_continue() else 0
        digest = self._digest(one)
        one.copy = self._copy(one, source, written, digest, temporary if whole else "")
        size = await one.copy.run()
        await at_side(Side.DESTINATION, self._complete(one, written, target, size))
        if digest:
            self._streams.note_checksum(file.source_path, Checksum(digest.algorithm, digest.hexdigest()))
        return size

    def _copy(self, one: _Under, source: str, written: str, digest: Digest | None, partial: str) -> FileCopy:
        rest = max(0, one.file.size - one.offset)

        async def reader(share: OctetShare) -> FileReader:
            return await open_reader(
                self._source.inner, source, one.offset, share, expected=one.file.size, encrypt=self._encrypt
            )

        async def writer(share: OctetShare) -> FileWriter:
            return await open_writer(
                self._destination.inner,
                written,
                one.offset,
                share,
                expected=rest,
                encrypt=self._encrypt,
                partial=partial,
            )

        return FileCopy(
            self._streams.memory.share(),
            one.offset,
            open_reader=reader,
            open_writer=writer,
            pace=self._streams.pace,
            progressed=lambda: self._progressed(one),
            digest=digest,
            most=2 * one.file.size + GROWTH,
        )

    def _may_continue(self) -> bool:
        """Whether the destination begins behind what is there, as far as it is known."""
        inner = self._destination.inner
        return not isinstance(inner, GridFTPSession) or may_write_from(inner)

    def _note_not_continued(self, one: _Under) -> None:
        """The destination did not begin there: from now on it gets whole files."""
        inner = self._destination.inner
        if one.offset and isinstance(inner, GridFTPSession):
            note_not_written(inner)

    async def _complete(self, one: _Under, written: str, target: str, size: int) -> None:
        """Check the size where the writer does not know what is stored, and give the file its name."""
        one.arrived = written != target
        if one.offset or not self._destination.multiplexed:
            found = await self._size_there(written, size)
            if found != size:
                self._note_not_continued(one)
                raw = f"{size} octets were sent, and the destination has {found}"
                raise FaultError(make_fault(Kind.FILE_SIZE_CHANGED, raw))
        if one.arrived:
            await self._destination.inner.give_name(written, target, size)

    async def _size_there(self, written: str, expected: int) -> int:
        """The octets of a file that the destination has confirmed; some servers show the last ones a little later."""
        found = (await self._destination.inner.stat(written)).size
        if found < expected:
            await asyncio.sleep(LATER)
            found = (await self._destination.inner.stat(written)).size
        return found

    def _digest(self, one: _Under) -> Digest | None:
        """The checksum that will be compared with the destination's, where the whole file passes here."""
        wanted = one.file.checksum
        if one.offset or not (self._verify or (wanted and wanted.value)):
            return None
        try:
            both = self._source.algorithms, self._destination.algorithms
            algorithm = common_algorithm(*both, wanted and wanted.algorithm)
        except FaultError:
            return None
        return Digest(algorithm) if algorithm in ALGORITHMS else None

    async def _ask_what_is_there(self, one: _Under, fault: Fault) -> None:
        """Ask a server how much it has of a file after the connection to it was lost.

        Plain FTP servers write a file from its beginning on, so its size shows how much is there. Only a name of this
        try's own is asked for: under another one the octets of an older file may lie. The toolkit's server may have
        spoiled the beginning (docs/decisions/settlement.md).
        """
        inner = self._destination.inner
        lost = fault.side is Side.DESTINATION and fault.scope is not FaultScope.FILE
        plain = isinstance(inner, GridFTPSession) and inner.is_plain_ftp
        if not (lost and plain and one.copy and one.copy.begun and one.file.temporary_path and self._size_of):
            return
        size = await self._size_of(inner.encode_path(self._destination.plain_path(one.file.temporary_path)))
        one.told = min(size or 0, one.copy.position)

    # ---- events

    def _progressed(self, one: _Under) -> None:
        now, stored = self._loop.time(), one.copy.stored if one.copy else 0
        if stored > max(one.reported, one.offset) and now - one.reported_at >= PROGRESS:
            one.reported, one.reported_at = stored, now
            self._add(FileProgress(one.file, RangeSet([(0, stored)])))

    async def _refused(self, one: _Under, fault: Fault) -> None:
        """Report the fault of a file. After one of the session, the files behind it come back untouched."""
        sessions = (self._source, self._destination)
        if fault.scope is not FaultScope.FILE or not all(session.inner.usable for session in sessions):
            self._lost = True
            for session in sessions:
                session.inner.abort()
        begun = self._lost and self._has_begun(one)
        trusted = None if self._must_begin_anew(one, fault) else one.on_disk
        if trusted is None and not self._lost:
            await self._clean_up(one)
        self._ended(one, FileRefused(one.file, fault_for_user(fault, sessions), trusted, begun, one.arrived))

    def _must_begin_anew(self, one: _Under, fault: Fault) -> bool:
        """Whether what is at the destination is not to be continued.

        So where a server refuses each octet behind what is there: gateways to object stores take whole files only.
        """
        if fault.kind is Kind.FILE_SIZE_CHANGED or not one.restarts:
            return True
        stands = one.copy is not None and one.copy.begun and one.copy.stored <= one.offset
        at_destination = fault.side is Side.DESTINATION and fault.scope is FaultScope.FILE
        return bool(one.offset) and stands and at_destination and fault.kind in _REFUSALS

    async def _clean_up(self, one: _Under) -> None:
        """Remove a temporary file that is not continued: the next attempt may have another name."""
        if one.file.temporary_path and one.copy and one.copy.begun:
            with contextlib.suppress(FaultError):
                written = self._destination.plain_path(one.file.temporary_path)
                await self._destination.inner.remove([(written, False)])

    def _ended(self, one: _Under, event: FileEvent) -> None:
        self._under.pop(one.file.id, None)
        self._add(event)

    def _add(self, event: FileEvent) -> None:
        self._events.append(event)
        self._ready.set()


def _received(one: _Under, size: int) -> int | None:
    """The octets that came now; None where both sides must be compared.

    So after another size than that of the row: the source has changed, or its server has accepted REST and sent the
    file from its beginning all the same (RFC 3659 section 5), behind what was there.
    """
    known = size == one.file.size and octets(one.file.ranges) == one.offset
    return size - one.offset if known or not one.file.ranges else None


def _offset(file: FileRow) -> int:
    """Where a stream can be continued: behind the octets from the beginning of the file that are there already."""
    ranges = list(RangeSet.parse(file.ranges))
    return ranges[0][1] if ranges and ranges[0][0] == 0 else 0
