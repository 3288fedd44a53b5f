"""Which way the files of a lane go: directly between the servers, or through this worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeGuard

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled
from transferapi.tasks.records import CLEAR, ENCRYPTED, STREAMED, DataProtection, DataWay, TaskSpec
from workers.pooled_sessions import PooledSession
from workers.session_pool import DIRECT, SessionPool

from .accounts import account_way, has_account, told
from .host import StreamingHost, TaskStreams
from .lane import StreamedLane
from .way import Way

#: Faults of a server that does not open data connections with the other one.
_OF_DATA_CONNECTIONS = frozenset(
    {Kind.CONNECT_FAILED, Kind.UNSUPPORTED, Kind.UNKNOWN, Kind.TIMEOUT, Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN}
)
#: Characters of a server's words in an event.
MAX_WHY = 300
NO_ENCRYPTION = "This server moves files in clear, and the task requires encryption."


async def way_between(
    source: PooledSession, destination: PooledSession, pool: SessionPool, *, encrypt: bool = False
) -> Way:
    """Servers without MODE E try MODE S once; most refuse the other one's address, and the pool remembers it."""
    ends = source.inner, destination.inner
    if not (isinstance(ends[0], GridFTPSession) and isinstance(ends[1], GridFTPSession)):
        return Way.STREAM
    if _has_ftp_tls(source) or _has_ftp_tls(destination):
        return Way.STREAM
    if has_account(source, destination):
        return account_way(source, destination, pool, encrypt=encrypt)
    if all(await asyncio.gather(ends[0].moves_blocks(), ends[1].moves_blocks())):
        return Way.BLOCKS
    mixed = source.inner.protected or destination.inner.protected
    refused = pool.refuses(DIRECT, source.address, destination.address)
    return Way.STREAM if mixed or refused else Way.PLAIN


class LaneOpener:
    """Opens the streamed lanes of one slice."""

    def __init__(self, spec: TaskSpec, pool: SessionPool, streams: TaskStreams | None) -> None:
        self.streams = streams or StreamingHost().task(spec.task_id)
        self._pool = pool
        self._verify = bool(spec.options.get("verify_checksum"))
        self._encrypt = bool(spec.options.get("encrypt_data"))

    def prepare(self, session: PooledSession) -> None:
        """A session to the source uses the checksums of what was read there."""
        session.read_checksum = self.streams.take_checksum

    def lane(self, source: PooledSession, destination: PooledSession) -> StreamedLane:
        """A lane through this worker. Raises FaultError where the task wants encryption, and a server has none."""
        clear = [session for session in (source, destination) if not session.inner.protected]
        if clear and self._encrypt:
            side = clear[0].side
            raise FaultError(
                Fault(Kind.UNSUPPORTED, side, retryable=False, scope=FaultScope.ENDPOINT, advice=NO_ENCRYPTION)
            )
        return StreamedLane(
            source,
            destination,
            self.streams,
            protection=_protection(clear),
            give_back=lambda session: self._pool.put(session.session_key, session.inner),
            verify=self._verify,
            encrypt=self._encrypt,
            data_way=told(source, destination, self._pool, direct=False)
            or DataWay(STREAMED, _why(source, destination)),
        )


def _why(source: PooledSession, destination: PooledSession) -> str:
    """The reason why the servers do not move the files between each other: a sentence for the user."""
    ssh = [session.side for session in (source, destination) if session.multiplexed]
    if ssh:
        which = "Both servers speak" if len(ssh) == 2 else f"The server of the {ssh[0]} speaks"
        return f"{which} SFTP, which has no transfers between servers."
    if any(map(_has_ftp_tls, (source, destination))):
        return "FTP servers protect data connections with this service by TLS, and none with each other."
    if source.inner.protected or destination.inner.protected:
        return "One is a plain FTP server, and the other one accepts protected connections only."
    return "The FTP servers refuse data connections with each other."


def _has_ftp_tls(session: PooledSession) -> bool:
    inner = session.inner
    return isinstance(inner, GridFTPSession) and inner.connection.data_tls is not None


def _protection(clear: Sequence[PooledSession]) -> DataProtection:
    if not clear:
        return DataProtection(ENCRYPTED)
    remedy = "An SFTP server, or a GridFTP server with certificates, would protect them."
    return DataProtection(CLEAR, clear[0].side, "is a plain FTP server, and sends files in clear", remedy)


class Trial:
    """Whether two plain FTP servers open data connections with each other, by the first files of a lane."""

    #: The way that is tried, for `SessionPool.refuse`.
    way = DIRECT

    def __init__(self, source: PooledSession, destination: PooledSession, pool: SessionPool) -> None:
        self._addresses = source.address, destination.address
        self._pool = pool
        self._passed = False
        self.failed = False

    def judge(self, events: Sequence[FileEvent]) -> Sequence[FileEvent]:
        """The events of the lane. After a failed trial files come back, to be sent through this worker."""
        if not self._passed and any(isinstance(event, FileSettled | FileProgress) for event in events):
            self._passed = True
            self._pool.note_works(self.way, *self._addresses)
        if self._passed:
            return events
        for event in events:
            if _shows_failure(event):
                self.failed = True
                why = (event.fault.raw or event.fault.advice)[:MAX_WHY]
                self._pool.refuse(self.way, *self._addresses, why=why)
        return [_returned(event) for event in events] if self.failed else events


def _shows_failure(event: FileEvent) -> TypeGuard[FileRefused]:
    return isinstance(event, FileRefused) and event.fault.kind in _OF_DATA_CONNECTIONS


def _returned(event: FileEvent) -> FileEvent:
    return FileReturned(event.tag, suspect=True, begun=event.begun) if _shows_failure(event) else event
