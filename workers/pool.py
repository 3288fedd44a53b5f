"""The connections of one worker process: warm sessions, how many are in use, and servers that are down."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.login import ANONYMOUS, Login
from workers.engine.ports import Transport

#: Seconds that an idle connection is kept; servers drop one after 600.
IDLE_SECONDS = 60.0
#: Idle connections kept to one server by one worker process: of one login, and of all.
MAX_IDLE = 8
MAX_IDLE_OF_ALL = 32
#: And to all servers together: one over ssh costs two threads.
MAX_IDLE_ANYWHERE = 256
#: Seconds that a server is left out after it could not be reached: at first, and at most.
FIRST_ABSENCE = 5.0
LONGEST_ABSENCE = 300.0
#: Seconds after its return for which a server's past counts against it.
FORGET_SECONDS = 3600.0
#: Seconds for which two servers are not asked again for a transport that they do not allow, or that failed.
REFUSED_SECONDS = 3600.0
#: What is said of the user, or of us, and not of the server: at another one it would be the same.
NOT_THE_SERVERS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS, Kind.INTERNAL_ERROR})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a session may be opened: an address that has passed the gate."""

    host: str
    port: int


async def _anonymous() -> Login:
    return ANONYMOUS


class Absences:
    """Which servers are left out for a while: 5 s after the first failure, and twice as long after each further one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: When it is to be tried again, and how long it was left out.
        self._absent: dict[Address, tuple[float, float]] = {}

    def note_failure(self, address: Address) -> None:
        """It could not be reached. What fails while it is left out belongs to attempts that were under way already."""
        if not self.left_out(address):
            _, before = self._absent.get(address, (0.0, 0.0))
            seconds = min(before * 2 or FIRST_ABSENCE, LONGEST_ABSENCE)
            self._absent[address] = (self._clock() + seconds, seconds)

    def note_success(self, address: Address) -> None:
        self._absent.pop(address, None)

    def left_out(self, address: Address) -> bool:
        return self.due(address) > self._clock()

    def due(self, address: Address) -> float:
        """When it may be tried again, by the clock; 0 for one that was never away."""
        return self._absent.get(address, (0.0, 0.0))[0]

    def expire(self) -> None:
        """Forget those of long ago."""
        past = self._clock() - FORGET_SECONDS
        self._absent = {address: absent for address, absent in self._absent.items() if absent[0] > past}


@dataclass(frozen=True, slots=True)
class Door:
    """Where a session leads to, and as whom. Whoever comes with the same key may use what another one has opened.

    key: of the user, of his credential and its version, and of the name that the server must have; no secret.
    login: made when a new session is needed. Raises FaultError.
    confine: has the server keep a new session within the folders that the key tells of. Raises FaultError. None: it
    sees all.
    """

    address: Address
    key: str = ANONYMOUS.key
    login: Callable[[], Awaitable[Login]] = field(default=_anonymous, compare=False)
    confine: Callable[[GridFTPSession], Awaitable[None]] | None = field(default=None, compare=False)


@dataclass(slots=True)
class _Idle:
    since: float
    key: str
    session: GridFTPSession


class SessionPool:
    """Warm sessions of one worker process. Lives on one event loop.

    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.absences = Absences(clock)
        self._clock = clock
        #: The one that came back last at the end.
        self._idle: dict[Address, deque[_Idle]] = {}
        self._turns = itertools.count(random.randrange(1000))  # noqa: S311 - only to spread
        self._refused: dict[tuple[Transport, Address, Address], float] = {}
        self._opening: Counter[Address] = Counter()
        #: In use, by whomever: one that is lost or forgotten drops out by itself.
        self._out: dict[Address, WeakSet[GridFTPSession]] = {}

    def choose(
        self,
        tiers: Sequence[Sequence[Address]],
        tried: Collection[Address] = (),
        doors: Mapping[Address, Door] | None = None,
    ) -> Address | None:
        """The server to ask next: of the first tier that has any, the one with the fewest sessions in use.

        doors: of several with as few, one where such a session is warm comes first.

        None when all were tried. Where all are left out, and none was tried, the one that is due first is asked anyway:
        with no other to go to, waiting longer than the caller does would only be lost time.
        """
        for tier in tiers:
            free = [address for address in tier if address not in tried and not self.absences.left_out(address)]
            if free:
                # Worker processes do not know of each other's: let them begin with different ones.
                turn = next(self._turns) % len(free)
                return min(
                    free[turn:] + free[:turn],
                    key=lambda address: (self.in_use(address), not self._is_warm(address, doors)),
                )
        if tried:
            return None
        return min((address for tier in tiers for address in tier), key=self.absences.due, default=None)

    def in_use(self, address: Address) -> int:
        """Sessions to this server that somebody has, or waits for."""
        return self._opening[address] + sum(session.usable for session in self._out.get(address, ()))

    async def take(self, door: Door) -> GridFTPSession:
        """A logged-in session, warm when there is one. Raises FaultError, after which the server is left out."""
        session = self._warm(door) or await self._open(door)
        self._out.setdefault(door.address, WeakSet()).add(session)
        return session

    def put(self, door: Door, session: GridFTPSession) -> None:
        """Keep an idle session for the next one with the same key."""
        self._out.get(door.address, WeakSet[GridFTPSession]()).discard(session)
        if not session.usable or session.connection.channel.unanswered:
            session.connection.abort()
            return
        idle = self._idle.setdefault(door.address, deque())
        idle.append(_Idle(self._clock(), door.key, session))
        alike = [one for one in idle if one.key == door.key]
        if len(alike) > MAX_IDLE or len(idle) > MAX_IDLE_OF_ALL:
            self._end(door.address, alike[0] if len(alike) > MAX_IDLE else idle[0])
        elif sum(map(len, self._idle.values())) > MAX_IDLE_ANYWHERE:
            self._end(
                *min(((address, there[0]) for address, there in self._idle.items()), key=lambda one: one[1].since)
            )

    def forget(self, begins: str) -> None:
        """End idle sessions whose key begins so: the credential they were opened with is not to be used any more."""
        for address, idle in list(self._idle.items()):
            for one in [one for one in idle if one.key.startswith(begins)]:
                self._end(address, one)

    def refuse(self, transport: Transport, source: Address, destination: Address) -> None:
        """This transport does not work between these servers."""
        self._refused[transport, source, destination] = self._clock() + REFUSED_SECONDS

    def refuses(self, transport: Transport, source: Address, destination: Address) -> bool:
        return self._refused.get((transport, source, destination), 0.0) > self._clock()

    def expire(self) -> None:
        """End what has been idle for too long, and forget what is over; called now and then."""
        now = self._clock()
        for address, idle in list(self._idle.items()):
            for one in [one for one in idle if now - one.since >= IDLE_SECONDS]:
                self._end(address, one)
        self._out = {address: out for address, out in self._out.items() if out}
        self._refused = {refused: until for refused, until in self._refused.items() if until > now}
        self.absences.expire()

    def close(self) -> None:
        self.forget("")

    def _end(self, address: Address, idle: _Idle) -> None:
        self._drop(address, idle)
        idle.session.connection.abort()

    def _drop(self, address: Address, idle: _Idle) -> None:
        there = self._idle[address]
        there.remove(idle)
        if not there:
            del self._idle[address]

    def _is_warm(self, address: Address, doors: Mapping[Address, Door] | None) -> bool:
        key = doors[address].key if doors else ANONYMOUS.key
        return any(one.key == key for one in self._idle.get(address, ()))

    def _warm(self, door: Door) -> GridFTPSession | None:
        alike = [one for one in self._idle.get(door.address, ()) if one.key == door.key]
        for one in reversed(alike):
            self._drop(door.address, one)
            if one.session.usable and self._clock() - one.since < IDLE_SECONDS:
                return one.session
            one.session.connection.abort()
        return None

    async def _open(self, door: Door) -> GridFTPSession:
        address = door.address
        login = await door.login()
        self._opening[address] += 1
        try:
            session = await GridFTPSession.open(address.host, address.port, login=login)
        except FaultError as error:
            if error.fault.kind not in NOT_THE_SERVERS:
                self.absences.note_failure(address)
            raise
        finally:
            self._opening[address] -= 1
            if not self._opening[address]:
                del self._opening[address]
        self.absences.note_success(address)
        if door.confine is not None:
            await _confine(session, door.confine)
        return session


async def _confine(session: GridFTPSession, confine: Callable[[GridFTPSession], Awaitable[None]]) -> None:
    """One that could not be kept within its folders is of no use to anybody."""
    try:
        await confine(session)
    except BaseException:
        session.connection.abort()
        raise
