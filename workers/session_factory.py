"""The engine's sessions and lanes on real servers: addresses of the registry, the gate, and warm connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast
from weakref import WeakSet

from endpoints.connect import dial
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.faults import AWAY_KINDS, Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.listing import LISTING_TIMEOUT
from endpoints.gridftp.third_party import data_security
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.wire.fence import Fence
from endpoints.sessions.remote import RemoteSession
from transferapi.tasks.records import AUTHENTICATED, CLEAR, ENCRYPTED, DataProtection, TaskSpec

from .agents import agent_ways
from .agents.agent_ways import TO_AGENT, AgentWay, agent_way
from .agents.entrances import RelayEntrances
from .agents.parted_lane import PartedLane
from .agents.reach import Reach, ReachOfAccounts, ReachOfRelay
from .engine.ports import TCP, Session, Transport
from .pooled_lane import PooledLane
from .sessions.pool import NOT_THE_SERVERS, THROUGH_RELAY, Address, SessionKey, SessionPool
from .sessions.pooled_sessions import GuardedSession, PooledSession
from .sessions.server_addresses import Place, ServerAddresses, ServersBySide
from .sessions.share_access_guard import ShareAccessGuard
from .sessions.trial import Trial
from .streaming.host import StreamingHost, TaskStreams
from .streaming.lane import StreamedLane
from .streaming.opening import open_lane
from .streaming.way import Way, on_trial, told, way_between

#: Seconds without a reply after which a lane over UDT is lost: servers without threads accept UDT, and hang.
UDT_STALL_TIMEOUT = 20.0
#: Seconds for the size of a file that is being written.
SIZE_TIMEOUT = 20.0
_PROTECTED = {
    data_security.DataSecurity.AUTHENTICATED: AUTHENTICATED,
    data_security.DataSecurity.PRIVATE: ENCRYPTED,
}


class _LaneSetup(NamedTuple):
    """The settings of a lane on which two servers agreed. plain: they are plain FTP servers, which may fail."""

    plain: bool
    agents: AgentWay
    entrances: RelayEntrances | None
    accept_address: Callable[[DataAddress], bool]
    protection: DataProtection


def anonymous(side: Side, address: Address, place: Place) -> SessionKey:
    """The key for endpoints that need no credential."""
    return SessionKey(address)


class RealSessions:
    """The engine's SessionFactory for one slice of one task.

    session_key: returns the login for a server. guards: those of the sides that are shared endpoints.
    resolve: the gate: turns a host name and port into allowed addresses, or raises FaultError; runs in a thread.
    accept_address: the gate for data addresses that servers name and that belong to a registered host.
    look_up: the addresses of a registered host, which have not passed the gate; runs in a thread.
    streams: for files that go through this worker. new_token: makes a token of the relay, for two agents, or for an
    agent and a server that connects to a port of the relay. listing_seconds: for which a server may be silent during a
    listing.
    """

    def __init__(
        self,
        spec: TaskSpec,
        places: ServersBySide,
        pool: SessionPool,
        fence: Fence,
        *,
        session_key: Callable[[Side, Address, Place], SessionKey] = anonymous,
        resolve: Callable[[str, int], list[str]],
        accept_address: Callable[[DataAddress], bool],
        look_up: Callable[[str], Collection[str]] = frozenset,
        guards: Mapping[Side, ShareAccessGuard] | None = None,
        streams: TaskStreams | None = None,
        new_token: Callable[[], str] = str,
        listing_seconds: float = LISTING_TIMEOUT,
    ) -> None:
        #: `ports.SessionFactory.fence`.
        self.fence = fence
        self._spec = spec
        self._new_token = new_token
        self._listing_seconds = listing_seconds
        #: The pairs of sessions that move files now.
        self._pairs: WeakSet[ThirdPartyLane] = WeakSet()
        self._streams = streams or StreamingHost().task(spec.task_id)
        self._guards = guards or {}
        self._addresses = ServerAddresses(places, resolve, look_up)
        self._pool = pool
        self._session_key = session_key
        self._encrypt = bool(spec.options.get("encrypt_data"))
        self._accept_address = accept_address
        self.transport = TCP
        #: The shortest round trip of each side, in seconds.
        self._round_trips: dict[Side, float] = {}

    async def session(self, side: Side) -> PooledSession:
        """A session to the endpoint's server with the fewest, or to another one when it cannot be reached."""
        try:
            tiers = await self._addresses.allowed(side)
            session_keys = self._session_keys(side, tiers)
        except FaultError as error:
            raise FaultError(self._for_user(error.fault, side)) from None
        tried: set[Address] = set()
        fault = Fault(Kind.CONNECT_FAILED, advice="The endpoint has no server.")
        while address := self._pool.choose(tiers, tried, session_keys):
            tried.add(address)
            try:
                taken = await self._pool.take(session_keys[address], self.fence)
                session = self._pooled(session_keys[address], side, taken)
                session.inner.demands_encryption = self._encrypt
                self._note_round_trip(session)
                return session
            except FaultError as error:
                fault = replace(error.fault, server=self._server(side, address))
                if fault.kind in NOT_THE_SERVERS:
                    break
        raise FaultError(replace(self._for_user(fault, side), scope=FaultScope.ENDPOINT))

    async def may_share_storage(self) -> bool:
        return await self._addresses.are_near()

    def _for_user(self, fault: Fault, side: Side) -> Fault:
        """The fault as the user may see it: for a shared endpoint, without the names of its host."""
        access_guard = self._guards.get(side)
        return replace(access_guard.for_user(fault), server="") if access_guard else fault.at(side)

    def _server(self, side: Side, address: Address) -> str:
        return self._addresses.place(side, address).label

    def _pooled(self, session_key: SessionKey, side: Side, session: RemoteSession) -> PooledSession:
        access_guard = self._guards.get(side)
        pooled = (
            GuardedSession(session_key, access_guard, session)
            if access_guard
            else PooledSession(session_key, side, session)
        )
        pooled.listing_seconds = self._listing_seconds
        if side is Side.SOURCE:
            pooled.read_checksum = self._streams.take_checksum
        return pooled

    def _session_keys(self, side: Side, tiers: Sequence[Sequence[Address]]) -> Mapping[Address, SessionKey]:
        """The keys of sessions to these servers now: the next session uses the credential that is stored now."""
        addresses = [address for tier in tiers for address in tier]
        session_keys = {
            address: self._session_key(side, address, self._addresses.place(side, address)) for address in addresses
        }
        if access_guard := self._guards.get(side):
            return {address: access_guard.session_key(session_key) for address, session_key in session_keys.items()}
        return session_keys

    @property
    def round_trip(self) -> float | None:
        return max(self._round_trips.values(), default=None)

    def _note_round_trip(self, session: PooledSession) -> None:
        trip = session.inner.round_trip
        if trip is not None:
            self._round_trips[session.side] = min(trip, self._round_trips.get(session.side, trip))

    async def give_back(self, session: Session) -> None:
        """Keep the session for the next caller, if it can still be used."""
        assert isinstance(session, PooledSession)
        self._keep(session)

    def _keep(self, session: PooledSession) -> None:
        self._pool.put(session.session_key, session.inner)

    async def lane(
        self, *, transport: Transport = TCP, relayed: bool = False
    ) -> PooledLane | StreamedLane | PartedLane:
        """A lane that is set up: a third-party pair, or through this worker where the servers cannot be one.

        To an agent it has several pairs, which it opens when they have something to do.
        """
        lane = await self._pair(transport, relayed=relayed)
        if not isinstance(lane, PooledLane) or lane.data_way is not TO_AGENT:
            return lane

        async def open_more() -> PooledLane:
            if len(self._pairs) >= self._spec.most_lanes:
                raise FaultError(make_fault(Kind.ENDPOINT_TOO_BUSY, "the task has no more sessions"))
            another = await self._pair(transport)
            assert isinstance(another, PooledLane)
            return another

        return PartedLane(lane, open_more)

    async def _pair(self, transport: Transport, *, relayed: bool = False) -> PooledLane | StreamedLane:
        source, destination = await self._both()
        try:
            way = await way_between(source, destination, self._pool, encrypt=self._encrypt)
            if way is Way.STREAM:
                self.transport = TCP
                size_of = partial(self._size_at, destination.session_key)
                return open_lane(source, destination, self._pool, self._streams, self._spec.options, size_of)
            plain = way is Way.PLAIN
            setup = await self._set_up(source, destination, transport, plain=plain, relayed=relayed)
        except BaseException:
            self._keep(source)
            self._keep(destination)
            raise
        return self._third_party(source, destination, setup)

    async def _set_up(
        self, source: PooledSession, destination: PooledSession, transport: Transport, *, plain: bool, relayed: bool
    ) -> _LaneSetup:
        """Agree with both servers on all that a lane needs. Raises FaultError."""
        agents = await agent_way(source, destination, self._pool, relayed=relayed)
        entrances: RelayEntrances | None = None
        if agents is AgentWay.SOURCE_CONNECTS:
            entrances = await self._entrances(source, destination)
            agents = agents if entrances else AgentWay.SOURCE_LISTENS
        try:
            # Before the transport changes: a session with another transport may not be given back.
            accept_address = await self._accepts_for(agents, same=source.address == destination.address)
            held = await self._secure(source, destination, encrypt=self._encrypt or agents is AgentWay.RELAY)
            protection = self._protection(held, source, destination)
            self.transport = await self._agree(transport, source, destination, held)
        except BaseException:
            if entrances:
                entrances.end()
            raise
        return _LaneSetup(plain, agents, entrances, accept_address, protection)

    def _third_party(self, source: PooledSession, destination: PooledSession, setup: _LaneSetup) -> PooledLane:
        agents = setup.agents
        lane = ThirdPartyLane(
            source.gridftp,
            destination.gridftp,
            parallelism=None,
            stream_mode=setup.plain or agents is AgentWay.SOURCE_LISTENS or self._stream_only,
            accept_address=setup.accept_address,
            stall_timeout=UDT_STALL_TIMEOUT if self.transport.udt else STALL_TIMEOUT,
            listener=Side.SOURCE if agents is AgentWay.SOURCE_LISTENS else Side.DESTINATION,
            token=self._new_token() if agents is AgentWay.RELAY else "",
            flushes=agents is not AgentWay.TRY_DIRECT,
            entrances=setup.entrances,
            size_of=partial(self._size_at, destination.session_key),
        )
        self._pairs.add(lane)
        kind = self._trial(setup, source, destination)
        trial = kind(source, destination, self._pool) if kind else None
        data_way = agent_ways.told(agents, source, destination)
        data_way = data_way or told(source, destination, self._pool, direct=True)
        return PooledLane(source, destination, lane, self._pool, self.transport, setup.protection, trial, data_way)

    async def _size_at(self, session_key: SessionKey, path: bytes) -> int | None:
        """The octets of a file that a lane writes; None where the server does not report them now."""
        session: RemoteSession | None = None
        try:
            async with asyncio.timeout(SIZE_TIMEOUT):
                session = await self._pool.take(session_key, self.fence)
                reply = await cast(GridFTPSession, session).connection.request("SIZE", path)
        except (FaultError, TimeoutError):
            return None
        finally:
            if session is not None:
                # One without its answer ends.
                self._pool.put(session_key, session)
        octets = reply.text.split()[-1:]
        return int(octets[0]) if not reply.is_error and octets and octets[0].isdecimal() else None

    def _trial(self, setup: _LaneSetup, source: PooledSession, destination: PooledSession) -> type[Trial] | None:
        """How it is tried whether a new lane's data connections can be made; None where that is known."""
        if setup.entrances:
            return ReachOfRelay
        if setup.agents is AgentWay.TRY_DIRECT:
            return Reach
        if on_trial(source, destination, self._pool):
            return ReachOfAccounts
        return Trial if setup.plain else None

    async def _entrances(self, source: PooledSession, destination: PooledSession) -> RelayEntrances | None:
        """Ports of the relay for this source; None where it has none for it now. Raises FaultError where it is away."""
        sender = source.gridftp.connection.peer_host
        hosts = {sender, *await self._addresses.hosts(Side.SOURCE)}
        entrances = RelayEntrances(partial(dial.open_entrance, hosts=hosts), self._new_token)
        try:
            await entrances.prepare()
        except FaultError as error:
            if error.fault.kind in AWAY_KINDS:
                raise
            return None
        if (":" in entrances.host) is not (":" in sender):
            # One has IPv4 only, and the other IPv6.
            self._pool.refuse(THROUGH_RELAY, source.address, destination.address)
            entrances.end()
            return None
        return entrances

    @property
    def _stream_only(self) -> bool:
        return self._spec.destination is not None and self._spec.destination.stream_only

    async def _accepts_for(self, agents: AgentWay, *, same: bool) -> Callable[[DataAddress], bool]:
        """The check of the listener's address. An agent's own address is for the other agent alone."""
        if agents is AgentWay.TRY_DIRECT:
            return partial(agent_ways.accepts, local=same)
        if agents is AgentWay.SOURCE_CONNECTS:
            return lambda _: True  # it is our own relay that has named it
        return await self._registered(Side.SOURCE if agents is AgentWay.SOURCE_LISTENS else Side.DESTINATION)

    async def _registered(self, side: Side) -> Callable[[DataAddress], bool]:
        """The check that an address belongs to a host which the owner of this side registered, and passes the gate."""
        known = await self._addresses.hosts(side)
        return lambda address: address[0] in known and self._accept_address(address)

    async def _secure(
        self, source: PooledSession, destination: PooledSession, *, encrypt: bool
    ) -> data_security.DataSecurity:
        """Secure the data channels as both servers and the user want; no request where they are secured already."""
        both = (source.gridftp, destination.gridftp)
        try:
            return await data_security.secure(*both, data_security.agree(*both, encrypt=encrypt))
        except FaultError as error:
            raise FaultError(self._pair_fault(error.fault, source, destination)) from None

    def _protection(
        self, held: data_security.DataSecurity, source: PooledSession, destination: PooledSession
    ) -> DataProtection:
        """The protection in the engine's terms, with the obstacle to a better one."""
        if held in _PROTECTED:
            return DataProtection(_PROTECTED[held])
        found = data_security.obstacle(source.gridftp, destination.gridftp, encrypt=False)
        if found is None:
            return DataProtection(CLEAR)
        refusal = self._pair_fault(found.refusal or Fault(Kind.UNSUPPORTED, found.side), source, destination)
        return DataProtection(CLEAR, found.side, found.why, found.remedy, refusal.raw)

    def _pair_fault(self, fault: Fault, source: PooledSession, destination: PooledSession) -> Fault:
        """The fault of one server about its data connections, as the user may see it.

        Its text may name folders of an account: at a shared endpoint that account is another user's.
        """
        if any(session.guarded for session in (source, destination) if fault.side in (session.side, Side.UNKNOWN)):
            fault = replace(fault, raw="")
        for session in (source, destination):
            if fault.side is session.side:
                return self._for_user(replace(fault, server=self._server(session.side, session.address)), session.side)
            if fault.side is Side.UNKNOWN:
                fault = replace(self._for_user(fault, session.side), side=Side.UNKNOWN)
        return fault

    async def _agree(
        self, wanted: Transport, source: PooledSession, destination: PooledSession, held: data_security.DataSecurity
    ) -> Transport:
        """Set both sides to this transport; after a refusal TCP is used, for a while without asking again."""
        addresses = source.address, destination.address
        if wanted == TCP or self._pool.refuses(wanted, *addresses):
            return TCP
        verb, argument = (
            ("SITE", data_security.network_stack("udt", held)) if wanted.udt else ("SBUF", b"%d" % (wanted.buffer or 0))
        )
        both = source.gridftp.connection, destination.gridftp.connection
        replies = await asyncio.gather(*(connection.request(verb, argument) for connection in both))
        if not any(reply.is_error for reply in replies):
            return wanted
        self._pool.refuse(wanted, *addresses)
        if wanted.udt:
            await asyncio.gather(*(connection.request(verb, b"SETNETSTACK default") for connection in both))
        return TCP

    async def _both(self) -> tuple[PooledSession, PooledSession]:
        """Open both sessions in parallel; when one side cannot be reached the other session goes back to the pool."""
        opening = [asyncio.ensure_future(self.session(side)) for side in (Side.SOURCE, Side.DESTINATION)]
        try:
            source, destination = await asyncio.gather(*opening)
        except BaseException:
            # Also when the caller was canceled, perhaps twice: a session that one of the two opened would stay open.
            for one in opening:
                one.add_done_callback(self._put_back)
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        return source, destination

    def _put_back(self, opened: asyncio.Future[PooledSession]) -> None:
        if not opened.cancelled() and not opened.exception():
            self._keep(opened.result())
