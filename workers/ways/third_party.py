"""A lane between two servers: both agree on its protection and transport, and open data connections with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from endpoints.gridftp.third_party import data_security
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from transferapi.tasks.records import AUTHENTICATED, CLEAR, ENCRYPTED, DataProtection, DataWay
from workers.engine.ports import TCP, Transport
from workers.sessions.pool import THIRD_PARTY

from .entrances import RelayEntrances
from .pooled_lane import PooledLane
from .trial import ReachOfAccounts, Trial
from .way import Pair, Way

#: Seconds without a reply after which a lane over UDT is lost: servers without threads accept UDT, and hang.
UDT_STALL_TIMEOUT = 20.0
_PROTECTED = {
    data_security.DataSecurity.AUTHENTICATED: AUTHENTICATED,
    data_security.DataSecurity.PRIVATE: ENCRYPTED,
}


class ThirdPartyWay(Way):
    """A way on which one server connects to the other, or both connect to the relay."""

    #: The side that listens for data connections.
    listener = Side.DESTINATION
    #: MODE S: one file for each data connection.
    stream_mode = False
    #: The data are encrypted, whatever the task requires.
    private = False
    #: Whether this service may connect to the listener's data port (`ThirdPartyLane`).
    flushes = True
    #: Ports of the relay to which the source connects.
    entrances: RelayEntrances | None = None

    @classmethod
    async def of(cls, pair: Pair) -> Self | None:
        """Possible wherever both servers move blocks; raises as `Way.of`."""
        return cls(pair) if await pair.moves_blocks() else None

    @property
    def trial(self) -> type[Trial] | None:
        """How it is tried whether data connections can be made; None where that is known.

        Servers of ssh accounts are tried until they have worked.
        """
        source, destination = self.pair.sessions
        works = self.pair.lanes.pool.works(THIRD_PARTY, source.address, destination.address)
        return ReachOfAccounts if any(self.pair.accounts) and not works else None

    @property
    def data_way(self) -> DataWay | None:
        """The way in words for the user; None between two servers, where it is the usual one."""
        return None

    def token(self) -> str:
        """Of the relay, where both servers connect to it."""
        return ""

    async def accepts(self) -> Callable[[DataAddress], bool]:
        """The check of the address at which the listener listens."""
        return await self.pair.lanes.registered(self.listener)

    async def open(self) -> PooledLane:
        """`Way.open`."""
        try:
            # Before the transport changes: a session with another transport may not be given back.
            accept_address = await self.accepts()
            security = await self._secure()
            protection = self._protection(security)
            transport = await self._agree(security)
        except BaseException:
            if self.entrances:
                self.entrances.end()
            raise
        return self._lane(accept_address, protection, transport)

    def _lane(
        self, accept_address: Callable[[DataAddress], bool], protection: DataProtection, transport: Transport
    ) -> PooledLane:
        source, destination = self.pair.sessions
        lanes = self.pair.lanes
        lane = ThirdPartyLane(
            source.gridftp,
            destination.gridftp,
            parallelism=None,
            stream_mode=self.stream_mode or lanes.stream_only,
            accept_address=accept_address,
            stall_timeout=UDT_STALL_TIMEOUT if transport.udt else STALL_TIMEOUT,
            listener=self.listener,
            token=self.token(),
            flushes=self.flushes,
            entrances=self.entrances,
            size_of=partial(lanes.size_at, destination.session_key),
        )
        trial = self.trial(source, destination, lanes.pool) if self.trial else None
        return PooledLane(source, destination, lane, lanes.pool, transport, protection, trial, self.data_way)

    async def _secure(self) -> data_security.DataSecurity:
        """Secure the data channels as both servers and the user want; no request where they are secured already."""
        source, destination = self.pair.sessions
        both = (source.gridftp, destination.gridftp)
        encrypt = self.pair.lanes.encrypt or self.private
        try:
            return await data_security.secure(*both, data_security.agree(*both, encrypt=encrypt))
        except FaultError as error:
            raise FaultError(self.pair.lanes.explained(error.fault, source, destination)) from None

    def _protection(self, security: data_security.DataSecurity) -> DataProtection:
        """The protection in the engine's terms, with the obstacle to a better one."""
        if security in _PROTECTED:
            return DataProtection(_PROTECTED[security])
        source, destination = self.pair.sessions
        obstacle = data_security.obstacle(source.gridftp, destination.gridftp, encrypt=False)
        if obstacle is None:
            return DataProtection(CLEAR)
        refusal = obstacle.refusal or Fault(Kind.UNSUPPORTED, obstacle.side)
        raw = self.pair.lanes.explained(refusal, source, destination).raw
        return DataProtection(CLEAR, obstacle.side, obstacle.why, obstacle.remedy, raw)

    async def _agree(self, security: data_security.DataSecurity) -> Transport:
        """Set both sides to the pair's transport; after a refusal TCP is used, for a while without asking again."""
        source, destination = self.pair.sessions
        transport, pool = self.pair.transport, self.pair.lanes.pool
        if transport == TCP or pool.refuses(transport, source.address, destination.address):
            return TCP
        verb, argument = (
            ("SITE", data_security.network_stack("udt", security))
            if transport.udt
            else ("SBUF", b"%d" % (transport.buffer or 0))
        )
        both = source.gridftp.connection, destination.gridftp.connection
        replies = await asyncio.gather(*(connection.request(verb, argument) for connection in both))
        if not any(reply.is_error for reply in replies):
            return transport
        pool.refuse(transport, source.address, destination.address)
        if transport.udt:
            await asyncio.gather(*(connection.request(verb, b"SETNETSTACK default") for connection in both))
        return TCP
