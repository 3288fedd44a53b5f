"""Opens the lanes whose files go through this worker, and tries whether two servers need that."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from transferapi.tasks.records import CLEAR, ENCRYPTED, STREAMED, DataProtection, DataWay, TaskSpec
from workers.sessions.pool import SessionPool
from workers.sessions.pooled_sessions import PooledSession

from .host import StreamingHost, TaskStreams
from .lane import StreamedLane
from .way import has_ftp_tls, told

NO_ENCRYPTION = "This server moves files in clear, and the task requires encryption."


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
    if any(map(has_ftp_tls, (source, destination))):
        return "FTP servers protect data connections with this service by TLS, and none with each other."
    if source.inner.protected or destination.inner.protected:
        return "One is a plain FTP server, and the other one accepts protected connections only."
    return "The FTP servers refuse data connections with each other."


def _protection(clear: Sequence[PooledSession]) -> DataProtection:
    if not clear:
        return DataProtection(ENCRYPTED)
    remedy = "An SFTP server, or a GridFTP server with certificates, would protect them."
    return DataProtection(CLEAR, clear[0].side, "is a plain FTP server, and sends files in clear", remedy)
