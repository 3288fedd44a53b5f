"""The way through this worker, which reads from the source and writes to the destination."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Self

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import CLEAR, ENCRYPTED, STREAMED, DataProtection, DataWay
from workers.sessions.pooled_sessions import PooledSession
from workers.streaming.lane import StreamedLane

from .accounts import why_streamed
from .way import Pair, Way, protocols_of

NO_ENCRYPTION = "This server moves files in clear, and the task requires encryption."


class ThroughService(Way):
    """For SFTP, and for servers that open no data connections with each other."""

    @classmethod
    async def of(cls, pair: Pair) -> Self:
        """Always possible."""
        return cls(pair)

    async def open(self) -> StreamedLane:
        """`Way.open`; raises FaultError where the task wants encryption, and a server has none."""
        source, destination = self.pair.sessions
        lanes = self.pair.lanes
        clear = [session for session in self.pair.sessions if not session.inner.protected]
        if clear and lanes.encrypt:
            side = clear[0].side
            raise FaultError(Fault(Kind.UNSUPPORTED, side, False, FaultScope.ENDPOINT, NO_ENCRYPTION))
        return StreamedLane(
            source,
            destination,
            lanes.streams,
            protection=_protection(clear),
            give_back=lambda session: lanes.pool.put(session.session_key, session.inner),
            verify=bool(lanes.options.get("verify_checksum")),
            encrypt=lanes.encrypt,
            size_of=partial(lanes.size_at, destination.session_key),
            data_way=why_streamed(self.pair) if any(self.pair.accounts) else DataWay(STREAMED, _why(self.pair)),
        )


def _why(pair: Pair) -> str:
    """The reason why the servers do not move the files between each other: a sentence for the user."""
    if any(session.multiplexed for session in pair.sessions):
        return _why_not_between(pair.sessions)
    if not pair.are_gridftp:
        return "FTP servers protect data connections with this service by TLS, and none with each other."
    if any(session.inner.protected for session in pair.sessions):
        return "One is a plain FTP server, and the other one accepts protected connections only."
    return "The FTP servers refuse data connections with each other."


def _why_not_between(sessions: Sequence[PooledSession]) -> str:
    """The reason where the protocol of one or both knows no transfers between servers."""
    streaming = [session for session in sessions if session.multiplexed]
    names = protocols_of(streaming)
    which = "Both servers speak" if len(streaming) == 2 else f"The server of the {streaming[0].side} speaks"
    have = "has" if len(names) == 1 else "have"
    return f"{which} {' and '.join(names)}, which {have} no transfers between servers."


def _protection(clear: Sequence[PooledSession]) -> DataProtection:
    if not clear:
        return DataProtection(ENCRYPTED)
    remedy = Sentence("An SFTP server, or a GridFTP server with certificates, would protect them.")
    return DataProtection(CLEAR, clear[0].side, Sentence("is a plain FTP server, and sends files in clear"), remedy)
