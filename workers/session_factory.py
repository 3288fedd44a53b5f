"""The engine's sessions and lanes on real servers: addresses of the registry, the gate, and warm connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import cast
from weakref import WeakSet

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.listing import LISTING_TIMEOUT
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.gridftp.third_party.slots import HEAD
from endpoints.gridftp.wire.fence import Fence
from endpoints.sessions.remote import RemoteSession
from transferapi.tasks.records import STREAMED, TaskSpec

from .engine.ports import TCP, Lane, Session, Transport
from .sessions.pool import NOT_THE_SERVERS, Address, SessionKey, SessionPool
from .sessions.pooled_sessions import GuardedSession, PooledSession
from .sessions.server_addresses import Place, ServerAddresses, ServersBySide
from .sessions.share_access_guard import ShareAccessGuard
from .streaming.host import StreamingHost, TaskStreams
from .streaming.pacer import Pacer
from .ways.choice import way_between
from .ways.paced_lane import PacedLane
from .ways.parted_lane import PartedLane
from .ways.pooled_lane import PooledLane
from .ways.third_party import ThirdPartyWay
from .ways.way import OpenLane, Pair, SliceLanes, Way

#: Seconds for the size of a file that is being written.
SIZE_TIMEOUT = 20.0


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
        self._listing_seconds = listing_seconds
        #: The lanes between servers that are in use.
        self._third_party: WeakSet[PooledLane] = WeakSet()
        self._streams = streams or StreamingHost().task(spec.task_id)
        self._guards = guards or {}
        self._addresses = ServerAddresses(places, resolve, look_up)
        self._pool = pool
        self._session_key = session_key
        self.transport = TCP
        self._lanes = SliceLanes(
            pool,
            self._streams,
            spec.options,
            stream_only=spec.destination is not None and spec.destination.stream_only,
            hosts=self._addresses.hosts,
            accept_address=accept_address,
            new_token=new_token,
            explained=self._pair_fault,
            size_at=self._size_at,
        )
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
                session.inner.demands_encryption = self._lanes.encrypt
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

    async def lane(self, *, transport: Transport = TCP, relayed: bool = False) -> Lane:
        """A lane that is set up, by the first way that is possible between the two servers."""
        way, lane = await self._open(transport, relayed=relayed)
        if pacer := self._streams.pacer:
            return self._paced(way, lane, pacer)
        if not (way.in_parts and isinstance(lane, PooledLane)):
            return lane

        async def open_more() -> PooledLane:
            if len(self._third_party) >= self._spec.most_lanes:
                raise FaultError(make_fault(Kind.ENDPOINT_TOO_BUSY, "the task has no more sessions"))
            _, another = await self._open(transport)
            assert isinstance(another, PooledLane)
            return another

        return PartedLane(lane, open_more)

    def _paced(self, way: Way, lane: OpenLane, pacer: Pacer) -> Lane:
        """The lane as the rate of the slice holds it."""
        if not isinstance(lane, PooledLane):
            pacer.begin(STREAMED)
            return lane
        assert isinstance(way, ThirdPartyWay)
        destination = way.pair.destination.gridftp
        ours = not destination.listens
        parts = "ERET" in way.pair.source.gridftp.features and "ESTO" in destination.features
        blocks = way.in_parts or not (way.stream_mode or self._lanes.stream_only)
        return PacedLane(lane, pacer, in_parts=parts and blocks, head=0 if ours else HEAD)

    async def _open(self, transport: Transport, *, relayed: bool = False) -> tuple[Way, OpenLane]:
        pair = Pair(*await self._both(), self._lanes, transport, relayed)
        try:
            way = await way_between(pair)
            lane = await way.open()
        except BaseException:
            pair.give_back()
            raise
        self.transport = lane.transport
        if isinstance(lane, PooledLane):
            self._third_party.add(lane)
        return way, lane

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

    async def _both(self) -> tuple[PooledSession, PooledSession]:
        """Open both sessions in parallel; when one side cannot be reached the other session goes back to the pool."""
        opening = [asyncio.ensure_future(self.session(side)) for side in (Side.SOURCE, Side.DESTINATION)]
        try:
            source, destination = await asyncio.gather(*opening)
        except BaseException:
            # Also when the caller was canceled, perhaps twice: a session that one of the two opened would stay open.
            for task in opening:
                task.add_done_callback(self._put_back)
            await asyncio.gather(*opening, return_exceptions=True)
            raise
        return source, destination

    def _put_back(self, opened: asyncio.Future[PooledSession]) -> None:
        if not opened.cancelled() and not opened.exception():
            self._keep(opened.result())
