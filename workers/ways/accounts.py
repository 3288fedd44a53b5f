"""The way between servers of which one was found or started in an ssh account.

They move data directly, else through ssh and a worker (`through_service`), else by SFTP.
"""

from __future__ import annotations

from typing import Self

from transferapi.tasks.records import DIRECT, STREAMED, DataWay
from workers.sessions.pool import THIRD_PARTY

from .servers import BetweenServers
from .way import Pair, protocols_of


class BetweenAccounts(BetweenServers):
    """As between servers; the first file shows whether they reach each other."""

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible until a trial has failed."""
        return await super().of(pair) if any(pair.accounts) else None

    @property
    def data_way(self) -> DataWay | None:
        """The programs of the accounts, and the way."""
        direct = DataWay(DIRECT, f"{programs(self.pair)} The servers open data connections with each other.")
        return super().data_way or direct


def programs(pair: Pair) -> str:
    """The programs of the accounts, in sentences."""
    offers = zip(pair.sessions, pair.accounts, strict=True)
    return " ".join(f"The {session.side}: {offer}" for session, offer in offers if offer)


def why_streamed(pair: Pair) -> DataWay:
    """The programs of the accounts, and why the data go through a worker."""
    if streamed := [session for session in pair.sessions if session.multiplexed]:
        sides = " and of the ".join(str(session.side) for session in streamed)
        names = " and ".join(protocols_of(streamed))
        return DataWay(STREAMED, f"{programs(pair)} Files of the {sides} are read and written by {names}.")
    why = pair.lanes.pool.why_refused(THIRD_PARTY, pair.source.address, pair.destination.address)
    return DataWay(
        STREAMED,
        f"{programs(pair)} The data go through ssh, because the servers could not connect directly: {why}",
    )
