"""The connections of one worker process: warm sessions by address, how many are in use, and servers that are down."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from weakref import WeakSet

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from workers.engine.ports import Transport

#: Seconds that an idle connection is kept; servers drop one after 600.
IDLE_SECONDS = 60.0
#: Idle connections kept to one server by one worker process.
MAX_IDLE = 8
#: Seconds that a server is left out after it could not be reached: at first, and at most.
FIRST_ABSENCE = 5.0
LONGEST_ABSENCE = 300.0
#: Seconds after its return for which a server's past counts against it.
FORGET_SECONDS = 3600.0
#: Seconds for which two servers are not asked again for a transport that they do not allow, or that failed.
REFUSED_SECONDS = 3600.0
#: What a server says of the user and not of itself: another one would say the same.
_ANSWERS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a session may be opened: an address that has passed the gate."""

    host: str
    port: int


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


class SessionPool:
    """Warm sessions of one worker process, by address. Lives on one event loop.

    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.absences = Absences(clock)
        self._clock = clock
        self._idle: dict[Address, deque[tuple[float, GridFTPSession]]] = {}
        self._turns = itertools.count(random.randrange(1000))  # noqa: S311 - only to spread
        self._refused: dict[tuple[Transport, Address, Address], float] = {}
        self._opening: Counter[Address] = Counter()
        #: In use, by whomever: one that is lost or forgotten drops out by itself.
        self._out: dict[Address, WeakSet[GridFTPSession]] = {}

    def choose(self, tiers: Sequence[Sequence[Address]], tried: Collection[Address] = ()) -> Address | None:
        """The server to ask next: of the first tier that has any, the one with the fewest sessions in use.

        None when all were tried. Where all are left out, and none was tried, the one that is due first is asked anyway:
        with no other to go to, waiting longer than the caller does would only be lost time.
        """
        for tier in tiers:
            free = [address for address in tier if address not in tried and not self.absences.left_out(address)]
            if free:
                # Worker processes do not know of each other's: let them begin with different ones.
                turn = next(self._turns) % len(free)
                return min(
                    free[turn:] + free[:turn], key=lambda address: (self.in_use(address), address not in self._idle)
                )
        if tried:
            return None
        return min((address for tier in tiers for address in tier), key=self.absences.due, default=None)

    def in_use(self, address: Address) -> int:
        """Sessions to this server that somebody has, or waits for."""
        return self._opening[address] + sum(session.usable for session in self._out.get(address, ()))

    async def take(self, address: Address) -> GridFTPSession:
        """A logged-in session, warm when there is one. Raises FaultError, after which the server is left out."""
        session = self._warm(address) or await self._open(address)
        self._out.setdefault(address, WeakSet()).add(session)
        return session

    def put(self, address: Address, session: GridFTPSession) -> None:
        """Keep an idle session for the next one."""
        self._out.get(address, WeakSet[GridFTPSession]()).discard(session)
        if not session.usable or session.connection.channel.unanswered:
            session.connection.abort()
            return
        idle = self._idle.setdefault(address, deque())
        idle.append((self._clock(), session))
        if len(idle) > MAX_IDLE:
            idle.popleft()[1].connection.abort()

    def refuse(self, transport: Transport, source: Address, destination: Address) -> None:
        """This transport does not work between these servers."""
        self._refused[transport, source, destination] = self._clock() + REFUSED_SECONDS

    def refuses(self, transport: Transport, source: Address, destination: Address) -> bool:
        return self._refused.get((transport, source, destination), 0.0) > self._clock()

    def expire(self) -> None:
        """End what has been idle for too long, and forget what is over; called now and then."""
        now = self._clock()
        for address, idle in list(self._idle.items()):
            while idle and now - idle[0][0] >= IDLE_SECONDS:
                idle.popleft()[1].connection.abort()
            if not idle:
                del self._idle[address]
        self._out = {address: out for address, out in self._out.items() if out}
        self._refused = {refused: until for refused, until in self._refused.items() if until > now}
        self.absences.expire()

    def close(self) -> None:
        for idle in self._idle.values():
            for _, session in idle:
                session.connection.abort()
        self._idle.clear()

    def _warm(self, address: Address) -> GridFTPSession | None:
        idle = self._idle.get(address)
        while idle:
            since, session = idle.pop()
            if session.usable and self._clock() - since < IDLE_SECONDS:
                return session
            session.connection.abort()
        self._idle.pop(address, None)
        return None

    async def _open(self, address: Address) -> GridFTPSession:
        self._opening[address] += 1
        try:
            session = await GridFTPSession.open(address.host, address.port)
        except FaultError as error:
            if error.fault.kind not in _ANSWERS:
                self.absences.note_failure(address)
            raise
        finally:
            self._opening[address] -= 1
            if not self._opening[address]:
                del self._opening[address]
        self.absences.note_success(address)
        return session
