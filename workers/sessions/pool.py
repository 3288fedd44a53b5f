"""The connections of one worker process: warm sessions, sessions in use, and servers that are down."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from endpoints.gridftp.faults import AWAY_KINDS, FaultError, Kind
from endpoints.gridftp.login import ANONYMOUS, Login
from endpoints.gridftp.wire.fence import Fence
from endpoints.sessions.remote import RemoteSession, open_session
from workers.engine.ports import Transport

#: Seconds that an idle connection is kept; servers close one after 600.
IDLE_SECONDS = 60.0
#: Idle connections to one server: with one login, the lanes of a task to an agent as endpoints are preset, and in all.
MAX_IDLE = 16
MAX_IDLE_OF_ALL = 32
#: Idle connections to all servers: one over ssh takes two threads.
MAX_IDLE_ANYWHERE = 256
#: Seconds for which a server is avoided after it could not be reached: at first, and at most.
FIRST_ABSENCE = 5.0
LONGEST_ABSENCE = 300.0
#: Seconds after which an earlier failure of a server is forgotten.
FORGET_SECONDS = 3600.0
#: Seconds for which two servers are not asked again for a transport that was refused, or that failed.
REFUSED_SECONDS = 3600.0
#: Data connections between the two servers, where they may refuse them: plain FTP servers, ssh accounts and agents.
THIRD_PARTY = "third party"
#: Small files from a server to an agent, by a port of the relay.
THROUGH_RELAY = "relay"
#: Faults of the user's credential, or of this service, and agents that are away: another server would give the same,
#: and an agent that is back is not avoided.
NOT_THE_SERVERS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS, Kind.HOST_KEY_CHANGED, Kind.INTERNAL_ERROR}) | AWAY_KINDS


@dataclass(frozen=True, slots=True)
class Address:
    """An address that has passed the gate: a session may be opened there."""

    host: str
    port: int


async def _anonymous() -> Login:
    return ANONYMOUS


class Absences:
    """Servers that are avoided for a while: 5 s after the first failure, and twice as long after each further one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: The time of the next try, and for how long the server is avoided.
        self._absent: dict[Address, tuple[float, float]] = {}

    def note_failure(self, address: Address) -> None:
        """The server could not be reached. Failures while it is avoided belong to earlier attempts and do not count."""
        if not self.left_out(address):
            _, before = self._absent.get(address, (0.0, 0.0))
            seconds = min(before * 2 or FIRST_ABSENCE, LONGEST_ABSENCE)
            self._absent[address] = (self._clock() + seconds, seconds)

    def note_success(self, address: Address) -> None:
        self._absent.pop(address, None)

    def left_out(self, address: Address) -> bool:
        return self.due(address) > self._clock()

    def due(self, address: Address) -> float:
        """When it may be tried again, by the clock; 0 for a server without a failure."""
        return self._absent.get(address, (0.0, 0.0))[0]

    def expire(self) -> None:
        """Forget old failures."""
        past = self._clock() - FORGET_SECONDS
        self._absent = {address: absent for address, absent in self._absent.items() if absent[0] > past}


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The server and the login of a session. A caller with the same key may use a session that another one opened.

    key: names the user, the credential and its version, and the name that the server must prove; no secret.
    login: called when a session is opened. Raises FaultError.
    confine: makes the server keep a new session within the folders in the key. Raises FaultError. None: no limits.
    """

    address: Address
    key: str = ANONYMOUS.key
    login: Callable[[], Awaitable[Login]] = field(default=_anonymous, compare=False)
    confine: Callable[[RemoteSession], Awaitable[None]] | None = field(default=None, compare=False)


@dataclass(slots=True)
class _Idle:
    since: float
    key: str
    session: RemoteSession


class SessionPool:
    """Warm sessions of one worker process. Lives on one event loop.

    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.absences = Absences(clock)
        self._clock = clock
        #: The session that came back last is at the end.
        self._idle: dict[Address, deque[_Idle]] = {}
        self._turns = itertools.count(random.randrange(1000))  # noqa: S311 - only to spread
        self._refused: dict[tuple[Transport | str, Address, Address], tuple[float, str]] = {}
        self._working: dict[tuple[Transport | str, Address, Address], float] = {}
        self._opening: Counter[Address] = Counter()
        #: Sessions in use; one that is lost or forgotten is removed by itself.
        self._out: dict[Address, WeakSet[RemoteSession]] = {}

    def choose(
        self,
        tiers: Sequence[Sequence[Address]],
        tried: Collection[Address] = (),
        session_keys: Mapping[Address, SessionKey] | None = None,
    ) -> Address | None:
        """The server to connect to next: of the first tier that has any, the one with the fewest sessions in use.

        session_keys: of several with as few, a server with such a warm session comes first.

        None when all were tried. Where all are avoided, and none was tried, the one that is due first is tried anyway:
        without another server, waiting longer than the caller's backoff would only lose time.
        """
        for tier in tiers:
            free = [address for address in tier if address not in tried and not self.absences.left_out(address)]
            if free:
                # Worker processes do not know of each other's sessions: they begin with different servers.
                turn = next(self._turns) % len(free)
                return min(
                    free[turn:] + free[:turn],
                    key=lambda address: (self.in_use(address), not self._is_warm(address, session_keys)),
                )
        if tried:
            return None
        return min((address for tier in tiers for address in tier), key=self.absences.due, default=None)

    def in_use(self, address: Address) -> int:
        """Sessions to this server that are in use, or being opened."""
        return self._opening[address] + sum(session.usable for session in self._out.get(address, ()))

    def counts(self) -> tuple[int, int]:
        """Idle sessions, and sessions that are in use or being opened, to all servers."""
        addresses = self._opening.keys() | self._out.keys()
        return sum(map(len, self._idle.values())), sum(map(self.in_use, addresses))

    async def take(self, session_key: SessionKey, fence: Fence) -> RemoteSession:
        """A logged-in session behind this fence until `put`, warm when there is one.

        Raises FaultError, after which the server is avoided.
        """
        session = self._warm(session_key)
        if session is None:
            with fence.in_force():
                session = await self._open(session_key)
        session.set_fence(fence)
        self._out.setdefault(session_key.address, WeakSet()).add(session)
        return session

    def put(self, session_key: SessionKey, session: RemoteSession) -> None:
        """Keep an idle session for the next caller with the same key. It has no fence until then."""
        self._out.get(session_key.address, WeakSet[RemoteSession]()).discard(session)
        if not (session.usable and session.idle):
            session.abort()
            return
        session.set_fence(None)
        idle = self._idle.setdefault(session_key.address, deque())
        idle.append(_Idle(self._clock(), session_key.key, session))
        alike = [one for one in idle if one.key == session_key.key]
        if len(alike) > MAX_IDLE or len(idle) > MAX_IDLE_OF_ALL:
            self._end(session_key.address, alike[0] if len(alike) > MAX_IDLE else idle[0])
        elif sum(map(len, self._idle.values())) > MAX_IDLE_ANYWHERE:
            self._end(
                *min(((address, there[0]) for address, there in self._idle.items()), key=lambda one: one[1].since)
            )

    def forget(self, begins: str) -> None:
        """End idle sessions whose key has this prefix: their credential may not be used any more."""
        self._end_where(lambda one: one.key.startswith(begins))

    def refuse(self, transport: Transport | str, source: Address, destination: Address, why: str = "") -> None:
        """Record that this transport, or way (THIRD_PARTY), does not work between these servers. why: for people."""
        self._refused[transport, source, destination] = self._clock() + REFUSED_SECONDS, why

    def refuses(self, transport: Transport | str, source: Address, destination: Address) -> bool:
        return self._refused.get((transport, source, destination), (0.0, ""))[0] > self._clock()

    def note_works(self, transport: Transport | str, source: Address, destination: Address) -> None:
        """Record that it works: it need not be tried again."""
        self._working[transport, source, destination] = self._clock() + REFUSED_SECONDS

    def works(self, transport: Transport | str, source: Address, destination: Address) -> bool:
        """Whether it has worked lately."""
        return self._working.get((transport, source, destination), 0.0) > self._clock()

    def why_refused(self, transport: Transport | str, source: Address, destination: Address) -> str:
        """The words of `refuse`."""
        return self._refused.get((transport, source, destination), (0.0, ""))[1]

    def expire(self) -> None:
        """End sessions that were idle for too long, and forget old records; called at intervals."""
        now = self._clock()
        self._end_where(lambda one: now - one.since >= IDLE_SECONDS)
        self._out = {address: out for address, out in self._out.items() if out}
        self._refused = {refused: until for refused, until in self._refused.items() if until[0] > now}
        self._working = {working: until for working, until in self._working.items() if until > now}
        self.absences.expire()

    def _end_where(self, ends: Callable[[_Idle], bool]) -> None:
        for address, idle in list(self._idle.items()):
            for one in filter(ends, list(idle)):
                self._end(address, one)

    def _end(self, address: Address, idle: _Idle) -> None:
        self._drop(address, idle)
        idle.session.abort()

    def _drop(self, address: Address, idle: _Idle) -> None:
        there = self._idle[address]
        there.remove(idle)
        if not there:
            del self._idle[address]

    def _is_warm(self, address: Address, session_keys: Mapping[Address, SessionKey] | None) -> bool:
        key = session_keys[address].key if session_keys else ANONYMOUS.key
        return any(one.key == key for one in self._idle.get(address, ()))

    def _warm(self, session_key: SessionKey) -> RemoteSession | None:
        alike = [one for one in self._idle.get(session_key.address, ()) if one.key == session_key.key]
        for one in reversed(alike):
            self._drop(session_key.address, one)
            if one.session.usable and self._clock() - one.since < IDLE_SECONDS:
                return one.session
            one.session.abort()
        return None

    async def _open(self, session_key: SessionKey) -> RemoteSession:
        address = session_key.address
        login = await session_key.login()
        self._opening[address] += 1
        try:
            session = await open_session(address.host, address.port, login)
        except FaultError as error:
            if error.fault.kind not in NOT_THE_SERVERS:
                self.absences.note_failure(address)
            raise
        finally:
            self._opening[address] -= 1
            if not self._opening[address]:
                del self._opening[address]
        self.absences.note_success(address)
        if session_key.confine is not None:
            try:
                await session_key.confine(session)
            except BaseException:
                session.abort()
                raise
        return session


def tiers_of(resolved: Sequence[tuple[Sequence[str], int]]) -> Sequence[Sequence[Address]]:
    """The addresses to spread sessions over, and those of the other address family, for when none is reached.

    A name with addresses of both families is usually one host, and the other endpoint may support only one of them.
    """
    first: dict[Address, None] = {}
    other: dict[Address, None] = {}
    for hosts, port in resolved:
        for host in hosts:
            same_family = (":" in host) == (":" in hosts[0])
            (first if same_family else other)[Address(host, port)] = None
    return list(first), [address for address in other if address not in first]
