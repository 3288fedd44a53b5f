"""The ways between two servers, of which none is an agent at the destination, and none belongs to an ssh account."""

from __future__ import annotations

from typing import Self

from transferapi.tasks.records import DIRECT, DataWay
from workers.sessions.pool import THIRD_PARTY

from .third_party import ThirdPartyWay
from .trial import Trial
from .way import Pair

FROM_AGENT = DataWay(DIRECT, "The computer at the source connects to the server at the destination.")


class BetweenServers(ThirdPartyWay):
    """A third-party transfer as GridFTP has it (GFD.20): the source connects, and sends blocks in MODE E."""

    @property
    def data_way(self) -> DataWay | None:
        """In words where the source is an agent."""
        return None if self.pair.source.gridftp.listens else FROM_AGENT


class InStreamMode(ThirdPartyWay):
    """A third-party transfer between plain FTP servers in MODE S (RFC 959 section 5.2).

    Most refuse the other one's address: they are tried once, and the pool remembers it.
    """

    stream_mode = True

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible where both speak FTP, and both do so in clear."""
        if not pair.are_gridftp or any(pair.accounts):
            return None
        protected = any(session.inner.protected for session in pair.sessions)
        return None if protected or pair.refuses(THIRD_PARTY) else cls(pair)

    @property
    def trial(self) -> type[Trial]:
        """The first file."""
        return Trial
