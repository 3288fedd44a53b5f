"""A lane of the engine (ports.Lane) on two real sessions: files between two servers, without this service."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, FaultError, Side
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.requests.naming import give_name
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import (
    FileEvent,
    FileProgress,
    FileRefused,
    FileSettled,
    Transfer,
)
from transferapi.tasks.records import DataProtection, DataWay, FileRow
from workers.engine.ports import TCP, Transport
from workers.engine.settle.arrival import readable
from workers.sessions.pool import SessionPool
from workers.sessions.pooled_sessions import PooledSession, fault_for_user

from .parts import FilePart
from .trial import Reach, Trial


class PooledLane:
    """data_way: the way of its data, where an agent has a part in it. trial: whether they can go this way at all."""

    def __init__(
        self,
        source: PooledSession,
        destination: PooledSession,
        lane: ThirdPartyLane,
        pool: SessionPool,
        transport: Transport,
        protection: DataProtection,
        trial: Trial | None = None,
        data_way: DataWay | None = None,
    ) -> None:
        self.protection = protection
        self.data_way = data_way
        self._trial = trial
        self._source = source
        self._destination = destination
        self._lane = lane
        self._pool = pool
        self.transport = transport
        #: Whether octets of a file have arrived.
        self.moved = False

    @property
    def alive(self) -> bool:
        return self._lane.alive and not (self._trial and self._trial.failed)

    @property
    def opened(self) -> bool:
        """Whether a data connection was opened, or something has moved."""
        return self.moved or self._lane.opened

    def use_streams(self, parallelism: int) -> None:
        """Use so many streams; only while no file is under way."""
        self._lane.use_streams(parallelism)

    def feed(self, file: FileRow) -> None:
        """Queue a file in the lane; never blocks."""
        file = readable(file)
        try:
            source_path, target, temporary = self._paths(file)
        except FaultError as error:
            # A control channel cannot carry its name.
            self._lane.report(FileRefused(file, error.fault, None))
        else:
            self._watch()
            ranges = RangeSet.parse(file.ranges) if file.ranges else None
            rename_to = target if temporary else None
            self._lane.feed(Transfer(file, source_path, temporary or target, file.size, rename_to, ranges))

    def _watch(self) -> None:
        if isinstance(self._trial, Reach):
            self._trial.watch(self)

    def feed_part(self, part: FilePart, *, anew: bool = False) -> None:
        """Queue a part of a file; `complete` gives the file its size and its name when all parts have arrived.

        anew: it is the first one, and empties a file that is there already.
        """
        try:
            source_path, target, temporary = self._paths(part.file)
        except FaultError as error:
            self._lane.report(FileRefused(part, error.fault, None))
        else:
            self._watch()
            length, anew = part.end - part.start, anew and not part.start
            self._lane.feed(Transfer(part, source_path, temporary or target, length, part=part.asked, truncates=anew))

    async def complete(self, file: FileRow, size: int | None) -> None:
        """Cut the file to its size, unless that is None, and give it its final name. Raises FaultError."""
        session = self._destination.gridftp
        try:
            _, target, temporary = self._paths(file)
            if size is not None:
                await session.connection.ask("SITE", b"TRNC %d %b" % (size, temporary or target))
            if temporary:
                await give_name(session.connection, temporary, target, replaces=session.features.replaces)
        except FaultError as error:
            raise FaultError(error.fault.at(Side.DESTINATION)) from None

    def _paths(self, file: FileRow) -> tuple[bytes, bytes, bytes | None]:
        """The source, the destination, and the temporary name. Raises FaultError."""
        source_path = self._source.fed_path(file.source_path)
        target = self._destination.fed_path(file.destination_path or "")
        return source_path, target, self._destination.fed_path(file.temporary_path) if file.temporary_path else None

    def lose(self, fault: Fault) -> None:
        """Close both connections; what is under way comes back with this fault."""
        if self._lane.alive:
            self._lane.abort(fault)

    @property
    def renaming(self) -> int:
        """`ports.Lane.renaming`."""
        return self._lane.renaming

    @property
    def begun(self) -> list[FileRow]:
        """Files under way that the destination has opened under their final names."""
        return [tag for tag in self._lane.begun if isinstance(tag, FileRow)]

    async def events(self) -> Sequence[FileEvent]:
        """Wait for events of the files. Faults are events: this raises none."""
        events = await self._lane.events()
        events = self._trial.judge(events) if self._trial else events
        self.moved = self.moved or any(isinstance(event, FileSettled | FileProgress) for event in events)
        return [self._for_user(event) for event in events]

    def _for_user(self, event: FileEvent) -> FileEvent:
        if not isinstance(event, FileRefused):
            return event
        return event._replace(fault=fault_for_user(event.fault, (self._source, self._destination)))

    async def close(self) -> None:
        """Give the sessions back if they are clean, else end them; those of another transport are ended."""
        lost = not self._lane.alive
        sessions = self._lane.release()
        if self.transport != TCP:
            if lost and not self.moved:
                self._pool.refuse(self.transport, self._source.address, self._destination.address)
            for session in sessions or ():
                session.connection.abort()
        elif sessions:
            self._pool.put(self._source.session_key, sessions[0])
            self._pool.put(self._destination.session_key, sessions[1])
