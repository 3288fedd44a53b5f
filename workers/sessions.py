"""The engine's sessions and lanes on real servers: the registry's addresses, the gate, and warm connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from endpoints.gridftp import data_security
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.data_path import DataAddress
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.gridftp.lane import ThirdPartyLane
from endpoints.gridftp.pair import FileProgress, FileRefused, FileReturned, FileSettled, PairEvent, Transfer
from endpoints.gridftp.ranges import RangeError, RangeSet
from workers.engine.ports import (
    AUTHENTICATED,
    CLEAR,
    ENCRYPTED,
    TCP,
    FileRow,
    LaneEvent,
    LaneProgress,
    LaneRefused,
    LaneReturned,
    LaneSettled,
    Protection,
    Session,
    TaskSpec,
    Transport,
)
from workers.guard import Guard
from workers.pool import NOT_THE_SERVERS, Address, Door, SessionPool
from workers.pooled import GuardedSession, PooledSession

#: Seconds without a word after which a lane over UDT is lost: servers without threads allow it, and hang.
UDT_STALL_TIMEOUT = 20.0
#: Names of data hosts may hang, and there may be many: they hold up no server's name, and nothing else in a thread.
_looking_up = ThreadPoolExecutor(2, thread_name_prefix="look-up")
_PROTECTED = {
    data_security.DataSecurity.AUTHENTICATED: AUTHENTICATED,
    data_security.DataSecurity.PRIVATE: ENCRYPTED,
}


class PooledLane:
    """A lane of the engine (ports.Lane) on two real sessions."""

    def __init__(
        self,
        source: PooledSession,
        destination: PooledSession,
        lane: ThirdPartyLane,
        pool: SessionPool,
        transport: Transport,
        protection: Protection,
    ) -> None:
        self.protection = protection
        self._source = source
        self._destination = destination
        self._lane = lane
        self._pool = pool
        self._transport = transport
        self._shared = {session.side: session for session in (source, destination) if session.guarded}
        self._moved = False
        #: What never reached the lane: names that a channel cannot carry.
        self._refused: list[LaneEvent] = []

    @property
    def alive(self) -> bool:
        return self._lane.alive

    def use_streams(self, parallelism: int) -> None:
        """Only while no file is under way."""
        self._lane.use_streams(parallelism)

    def feed(self, file: FileRow) -> None:
        """Put a file into the pipe; never blocks."""
        side = Side.SOURCE
        try:
            source_path = self._source.fed_path(file.source_path)
            side = Side.DESTINATION
            target = self._destination.fed_path(file.destination_path or "")
            temporary = self._destination.fed_path(file.temporary_path) if file.temporary_path else None
            ranges = RangeSet.parse(file.ranges) if file.ranges else None
        except FaultError as error:
            self._refused.append(LaneRefused(file, error.fault.at(side)))
        except RangeError:
            # Ranges that cannot be read are worth nothing: begin afresh.
            self.feed(replace(file, ranges=""))
        else:
            rename_to = target if temporary else None
            self._lane.feed(Transfer(file, source_path, temporary or target, file.size, rename_to, ranges))

    @property
    def begun(self) -> list[FileRow]:
        """Files under way that the destination has opened under their own names."""
        return [tag for tag in self._lane.begun if isinstance(tag, FileRow)]

    async def events(self) -> Sequence[LaneEvent]:
        """Wait until something happened; never raises for a fault."""
        if self._refused:
            refused, self._refused = self._refused, []
            return refused
        events = [_translate(event) for event in await self._lane.events()]
        if self._shared:
            events = [self._told(event) for event in events]
        self._moved = self._moved or any(isinstance(event, LaneSettled | LaneProgress) for event in events)
        return events

    def _told(self, event: LaneEvent) -> LaneEvent:
        """Faults without the names of the folders that are shared. A side that is not known may be either."""
        if not isinstance(event, LaneRefused):
            return event
        fault = event.fault
        for side, session in self._shared.items():
            if fault.side in (side, Side.UNKNOWN):
                fault = replace(session.told(fault), side=fault.side)
        return replace(event, fault=fault)

    async def close(self) -> None:
        """Give the sessions back when they are clean, else they are gone; those of another transport are ended."""
        lost = not self._lane.alive
        sessions = self._lane.release()
        if self._transport != TCP:
            if lost and not self._moved:
                self._pool.refuse(self._transport, self._source.address, self._destination.address)
            for session in sessions or ():
                session.connection.abort()
        elif sessions:
            self._pool.put(self._source.door, sessions[0])
            self._pool.put(self._destination.door, sessions[1])


def _translate(event: PairEvent) -> LaneEvent:
    """Events of the pair carry our FileRow as their tag."""
    file = getattr(event, "tag", None)
    assert isinstance(file, FileRow)
    match event:
        case FileSettled(_, count):
            return LaneSettled(file, count)
        case FileRefused(_, fault, trusted, begun):
            return LaneRefused(file, fault, trusted.format() if trusted else "", begun)
        case FileReturned(_, suspect, begun):
            return LaneReturned(file, suspect, begun)
        case FileProgress(_, ranges):
            return LaneProgress(file, ranges.format(), ranges.total)
        case _:
            raise AssertionError(event)


class Place(NamedTuple):
    """A server, not yet resolved. subject: what its certificate has, where that is not its host name."""

    host: str
    port: int
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Places:
    """The servers of a task's endpoints, by side."""

    servers: dict[Side, Sequence[Place]]
    stream_only: bool = False
    #: Names of further hosts that the endpoints' owners have registered for their data connections, by side.
    data_hosts: Mapping[Side, Sequence[str]] = field(default_factory=dict)


def anonymous(side: Side, address: Address, place: Place) -> Door:
    """For endpoints that need no credential."""
    return Door(address)


class RealSessions:
    """The engine's SessionFactory for one slice of one task.

    door: as whom a server is entered. guards: of the sides that are shared endpoints.
    resolve: the gate: turns a host name and port into allowed addresses, or raises FaultError; runs in a thread.
    accept_address: the gate for data addresses that servers name and that are those of a registered host.
    look_up: the addresses of a registered host, which have not passed the gate; runs in a thread.
    """

    def __init__(
        self,
        spec: TaskSpec,
        places: Places,
        pool: SessionPool,
        *,
        door: Callable[[Side, Address, Place], Door] = anonymous,
        resolve: Callable[[str, int], list[str]],
        accept_address: Callable[[DataAddress], bool],
        look_up: Callable[[str], Collection[str]] = frozenset,
        guards: Mapping[Side, Guard] | None = None,
    ) -> None:
        self._spec = spec
        self._guards = guards or {}
        self._places = places
        self._pool = pool
        self._door = door
        self._encrypt = bool(spec.options.get("encrypt_data"))
        self._resolve = resolve
        self._accept_address = accept_address
        self._look_up = look_up
        self.transport = TCP
        self._tiers: dict[Side, Sequence[Sequence[Address]]] = {}
        #: Of the endpoints' servers and data hosts, by side.
        self._registered_hosts: dict[Side, Collection[str]] = {}
        self._places_at: dict[tuple[Side, Address], Place] = {}
        #: The shortest that was seen of each side, in seconds.
        self._round_trips: dict[Side, float] = {}

    async def session(self, side: Side) -> PooledSession:
        """A session to the server of the endpoint that has the fewest, or to another one when it cannot be reached."""
        try:
            tiers = await self._allowed(side)
            doors = self._doors(side, tiers)
        except FaultError as error:
            raise FaultError(self._told(error.fault, side)) from None
        tried: set[Address] = set()
        fault = Fault(Kind.CONNECT_FAILED, advice="The endpoint has no server.")
        while address := self._pool.choose(tiers, tried, doors):
            tried.add(address)
            try:
                session = self._pooled(doors[address], side, await self._pool.take(doors[address]))
                session.inner.demands_encryption = self._encrypt
                self._note_round_trip(session)
                return session
            except FaultError as error:
                fault = replace(error.fault, server=self._server(side, address))
                if fault.kind in NOT_THE_SERVERS:
                    break
        raise FaultError(replace(self._told(fault, side), scope=Scope.ENDPOINT))

    def _told(self, fault: Fault, side: Side) -> Fault:
        """As the user may hear of it: of a shared endpoint without the names of its host."""
        guard = self._guards.get(side)
        return replace(guard.told(fault), server="") if guard else fault.at(side)

    def _server(self, side: Side, address: Address) -> str:
        """As the endpoint has it: host and port."""
        place = self._places_at[side, address]
        return f"[{place.host}]:{place.port}" if ":" in place.host else f"{place.host}:{place.port}"

    def _pooled(self, door: Door, side: Side, session: GridFTPSession) -> PooledSession:
        guard = self._guards.get(side)
        return GuardedSession(door, guard, session) if guard else PooledSession(door, side, session)

    def _doors(self, side: Side, tiers: Sequence[Sequence[Address]]) -> Mapping[Address, Door]:
        """As they are now: the next session is opened with the credential that is there then."""
        addresses = [address for tier in tiers for address in tier]
        doors = {address: self._door(side, address, self._places_at[side, address]) for address in addresses}
        if guard := self._guards.get(side):
            return {address: guard.door(door) for address, door in doors.items()}
        return doors

    @property
    def round_trip(self) -> float | None:
        return max(self._round_trips.values(), default=None)

    def _note_round_trip(self, session: PooledSession) -> None:
        trip = session.inner.round_trip
        if trip is not None:
            self._round_trips[session.side] = min(trip, self._round_trips.get(session.side, trip))

    async def give_back(self, session: Session) -> None:
        """Keep it for the next one, if it is still of use."""
        assert isinstance(session, PooledSession)
        self._pool.put(session.door, session.inner)

    async def lane(self, *, transport: Transport = TCP) -> PooledLane:
        """A lane, set up, its destination listening."""
        source, destination = await self._both()
        try:
            # Before the transport is changed: a session of another one is not to be given back.
            accept_address = await self._registered(Side.DESTINATION)
            held = await self._secure(source, destination)
            protection = self._protection(held, source, destination)
            self.transport = await self._agree(transport, source, destination, held)
        except BaseException:
            await self.give_back(source)
            await self.give_back(destination)
            raise
        lane = ThirdPartyLane(
            source.inner,
            destination.inner,
            parallelism=None,
            stream_mode=self._places.stream_only,
            accept_address=accept_address,
            stall_timeout=UDT_STALL_TIMEOUT if self.transport.udt else STALL_TIMEOUT,
        )
        return PooledLane(source, destination, lane, self._pool, self.transport, protection)

    async def _registered(self, side: Side) -> Callable[[DataAddress], bool]:
        """Whether an address is that of a host which the owner of this side has registered, and the gate allows it."""
        if side not in self._registered_hosts:
            names = self._places.data_hosts.get(side, ())
            loop = asyncio.get_running_loop()
            found = await asyncio.gather(*(loop.run_in_executor(_looking_up, self._look_up, name) for name in names))
            servers = {address.host for tier in await self._allowed(side) for address in tier}
            self._registered_hosts[side] = servers.union(*found)
        known = self._registered_hosts[side]
        return lambda address: address[0] in known and self._accept_address(address)

    async def _secure(self, source: PooledSession, destination: PooledSession) -> data_security.DataSecurity:
        """Data channels as both servers and the user want them; costs nothing where they are so already."""
        both = (source.inner, destination.inner)
        try:
            wanted = data_security.agree(*both, encrypt=self._encrypt)
            held = await data_security.secure(*both, wanted)
        except FaultError as error:
            raise FaultError(self._of_pair(error.fault, source, destination)) from None
        return held

    def _protection(
        self, held: data_security.DataSecurity, source: PooledSession, destination: PooledSession
    ) -> Protection:
        """In the engine's words, with what is in the way of better."""
        if held in _PROTECTED:
            return Protection(_PROTECTED[held])
        found = data_security.obstacle(source.inner, destination.inner, encrypt=False)
        if found is None:
            return Protection(CLEAR)
        refusal = self._of_pair(found.refusal or Fault(Kind.UNSUPPORTED, found.side), source, destination)
        return Protection(CLEAR, found.side, found.why, found.remedy, refusal.raw)

    def _of_pair(self, fault: Fault, source: PooledSession, destination: PooledSession) -> Fault:
        """What one of two servers said of its data connections, as the user may hear of it.

        It may name folders of an account: at a shared endpoint that is another user's.
        """
        if any(session.guarded for session in (source, destination) if fault.side in (session.side, Side.UNKNOWN)):
            fault = replace(fault, raw="")
        for session in (source, destination):
            if fault.side is session.side:
                return self._told(replace(fault, server=self._server(session.side, session.address)), session.side)
            if fault.side is Side.UNKNOWN:
                fault = replace(self._told(fault, session.side), side=Side.UNKNOWN)
        return fault

    async def _agree(
        self, wanted: Transport, source: PooledSession, destination: PooledSession, held: data_security.DataSecurity
    ) -> Transport:
        """Set both sides to this transport; one that refuses makes it TCP, for a while without asking."""
        addresses = source.address, destination.address
        if wanted == TCP or self._pool.refuses(wanted, *addresses):
            return TCP
        verb, argument = (
            ("SITE", data_security.network_stack("udt", held)) if wanted.udt else ("SBUF", b"%d" % (wanted.buffer or 0))
        )
        both = source.inner.connection, destination.inner.connection
        replies = await asyncio.gather(*(connection.request(verb, argument) for connection in both))
        if not any(reply.is_error for reply in replies):
            return wanted
        self._pool.refuse(wanted, *addresses)
        if wanted.udt:
            await asyncio.gather(*(connection.request(verb, b"SETNETSTACK default") for connection in both))
        return TCP

    async def _both(self) -> tuple[PooledSession, PooledSession]:
        """Both sessions at once; when one side cannot be reached the other goes back to the pool."""
        opening = [asyncio.ensure_future(self.session(side)) for side in (Side.SOURCE, Side.DESTINATION)]
        try:
            source, destination = await asyncio.gather(*opening)
        except BaseException:
            # Also when nobody waits for the lane any more: what one of the two has opened would stay open.
            await asyncio.gather(*opening, return_exceptions=True)
            for one in opening:
                if not one.cancelled() and not one.exception():
                    await self.give_back(one.result())
            raise
        return source, destination

    async def _allowed(self, side: Side) -> Sequence[Sequence[Address]]:
        """All addresses of the endpoint's servers that may be connected to. Raises FaultError when there is none."""
        if side not in self._tiers:
            places = self._places.servers.get(side, ())
            found = await asyncio.gather(
                *(asyncio.to_thread(self._resolve, place.host, place.port) for place in places), return_exceptions=True
            )
            known = [(place, hosts) for place, hosts in zip(places, found, strict=True) if isinstance(hosts, list)]
            for place, host in [(place, host) for place, hosts in known for host in hosts]:
                self._places_at.setdefault((side, Address(host, place.port)), place)
            tiers = _tiers([(hosts, place.port) for place, hosts in known])
            refused = next((one for one in found if isinstance(one, BaseException)), None)
            if refused and not any(tiers):
                raise refused
            self._tiers[side] = tiers
        return self._tiers[side]


def _tiers(resolved: Sequence[tuple[Sequence[str], int]]) -> Sequence[Sequence[Address]]:
    """The addresses to spread over, and those for when none of them can be reached: of each name the other family.

    A name with addresses of both is usually one host, and the other endpoint may well know one of them only.
    """
    first: dict[Address, None] = {}
    other: dict[Address, None] = {}
    for hosts, port in resolved:
        for host in hosts:
            same_family = (":" in host) == (":" in hosts[0])
            (first if same_family else other)[Address(host, port)] = None
    return list(first), [address for address in other if address not in first]
