"""Opens the lanes whose files go through this worker, and says why they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.third_party.growth import SizeOf
from transferapi.tasks.records import CLEAR, ENCRYPTED, STREAMED, DataProtection, DataWay
from workers.sessions.pool import SessionPool
from workers.sessions.pooled_sessions import PooledSession

from .host import TaskStreams
from .lane import StreamedLane
from .way import has_ftp_tls, told

NO_ENCRYPTION = "This server moves files in clear, and the task requires encryption."


def open_lane(
    source: PooledSession,
    destination: PooledSession,
    pool: SessionPool,
    streams: TaskStreams,
    options: Mapping[str, object],
    size_of: SizeOf | None = None,
) -> StreamedLane:
    """A lane through this worker. Raises FaultError where the task wants encryption, and a server has none.

    size_of: `StreamedLane`.
    """
    encrypt = bool(options.get("encrypt_data"))
    clear = [session for session in (source, destination) if not session.inner.protected]
    if clear and encrypt:
        side = clear[0].side
        raise FaultError(
            Fault(Kind.UNSUPPORTED, side, retryable=False, scope=FaultScope.ENDPOINT, advice=NO_ENCRYPTION)
        )
    return StreamedLane(
        source,
        destination,
        streams,
        protection=_protection(clear),
        give_back=lambda session: pool.put(session.session_key, session.inner),
        verify=bool(options.get("verify_checksum")),
        encrypt=encrypt,
        size_of=size_of,
        data_way=told(source, destination, pool, direct=False) or DataWay(STREAMED, _why(source, destination)),
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
