"""The context that the parts of a slice share: the ports, the deadline, the backoff, and how the slice ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.faults import AWAY_KINDS, Fault, Kind, Side, make_fault
from identity.gsi.sentences import Sentence
from transferapi.tasks.errors import LeaseLostError, TooMuchError
from transferapi.tasks.records import TaskSpec

from .bounds import DEFAULT, EngineBounds, MemoryFullError
from .control_sessions import QUIET, ControlSessions
from .credentials import Credentials
from .lease import HeldLease
from .paths import is_within
from .ports import Clock, SessionFactory, TaskStore
from .retry import Decision, EndpointBackoff, Fail, Policy, Retry, Suspend, Wait, decide
from .same_storage import StorageProbe
from .trace import NO_TRACE, Trace

#: The longest backoff, in seconds, for which a slice keeps its lease; for a longer one it releases the task.
LONGEST_WAIT = 5.0
#: How long a task waits when the memory of its worker is full.
MEMORY_PAUSE = timedelta(seconds=60)
#: Maximum number of characters of a server's reply in the final message of a task.
MAX_REPLY_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The whole task has ended: canceled, expired, or failed. drain: files under way may still arrive."""

    code: str
    description: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Suspended:
    """The task waits until a person acts."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Released:
    """Another slice continues at `at`; None: as soon as one can, before tasks that came later. drain: files under way
    may still arrive."""

    at: datetime | None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Away:
    """The computer of an endpoint is away: another slice continues when it is back, or at `at`."""

    fault: Fault
    at: datetime


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """The task waits until its owner confirms that so many of the destination's entries are deleted, or refuses."""

    extra: int
    total: int


Ending = Finished | Failed | Suspended | Released | Away | Unconfirmed


class SliceContext:
    """The shared state of one slice of one task."""

    def __init__(
        self,
        spec: TaskSpec,
        store: TaskStore,
        sessions: SessionFactory,
        credentials: Credentials,
        clock: Clock,
        jitter: Callable[[], float],
        bounds: EngineBounds = DEFAULT,
        trace: Trace = NO_TRACE,
    ) -> None:
        self.spec = spec
        self.store = store
        self.sessions = sessions
        self.credentials = credentials
        self.clock = clock
        self.lease = HeldLease(store, sessions.fence, clock)
        self.trace = trace
        self.jitter = jitter
        self.control_sessions = ControlSessions(sessions, bounds, self.reached, trace)
        self.control_sessions.on_silence = self._silent
        self.control_sessions.on_answer = lambda side: self._spawn_while_running(self.reached(side))
        self._troubled = spec.troubled
        self.endpoints = EndpointBackoff(spec.connection_failures)
        self.policy = Policy.of(spec.options)
        self.deadline = clock.now()
        #: How the slice ends; the first call of `end` counts. An unexpected error of any part ends it too.
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        destination = spec.destination
        #: Source and destination are on the same servers: a file could be written over itself.
        self.same_endpoint = destination is not None and destination.host == spec.source.host
        self.storage_probe = StorageProbe(
            spec.task_id, sessions, self.control_sessions, same_endpoint=self.same_endpoint or spec.is_delete
        )
        self._more_to_do = asyncio.Event()
        self._parts: set[asyncio.Task[None]] = set()

    def real(self, side: Side, path: str) -> str:
        """The path as the servers know it, to compare paths of the two sides where `same_endpoint`."""
        end = self.spec.destination if side is Side.DESTINATION else self.spec.source
        if end is None or end.root is None:
            return path
        return end.root + (path[2:] if path.startswith("/~/") else path)

    def is_into_itself(self, source: str, destination: str) -> bool:
        """Whether the destination is the source or lies inside it, as far as the names show."""
        inner, outer = self.real(Side.DESTINATION, destination), self.real(Side.SOURCE, source)
        return self.same_endpoint and is_within(inner, outer)

    def end(self, ending: Ending) -> None:
        """End the slice like this, unless it has ended already."""
        if not self.ended.done():
            self.ended.set_result(ending)

    def spawn(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a part of the slice; an unexpected error in it ends the slice."""
        task = asyncio.get_running_loop().create_task(part)
        self._parts.add(task)
        task.add_done_callback(self._part_done)
        return task

    def _part_done(self, task: asyncio.Task[None]) -> None:
        self._parts.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, LeaseLostError):
            self.lease.lose()
        if isinstance(error, TooMuchError):
            self.end(Failed(Kind.LIMIT_EXCEEDED, error.reason, drain=True))
        elif isinstance(error, MemoryFullError):
            self.end(Released(self.clock.now() + MEMORY_PAUSE, drain=True))
        elif error is not None and not self.ended.done():
            self.ended.set_exception(error)

    def more_to_do(self) -> None:
        """Report that there may be more to do: the one way in which a part of the slice makes the others continue.

        A part calls it after it has changed something that others wait for: files in the queue, a free lane, the end
        of the scan, a written batch, a new plan. The slice then starts all work that can be started
        (`FileProcessor.start_work`) and checks whether it has ended. Cheap: calls before that count as one.
        """
        self._more_to_do.set()

    async def wait_for_more(self) -> None:
        """Wait for `more_to_do`. Only the slice waits here."""
        await self._more_to_do.wait()
        self._more_to_do.clear()

    async def stop_parts(self, but: Collection[asyncio.Task[None] | None] = ()) -> None:
        """Stop all running parts at once, except `but`."""
        await cancel_all(part for part in self._parts if part not in but)

    def decide(self, fault: Fault, attempts: int, skip: Collection[Kind] = ()) -> Decision:
        """Decide what follows from this fault. A fault for which the task waits, or that ends it, ends the slice.

        Raises LeaseLostError.
        """
        self.lease.check()
        now, jitter = self.clock.now(), self.jitter()
        renewable = self.credentials.renewable(fault.side)
        decision = decide(
            fault, attempts, now, self.deadline, jitter, skip=skip, policy=self.policy, renewable=renewable
        )
        if isinstance(decision, Suspend):
            self.end(Suspended(fault))
        elif isinstance(decision, Wait):
            self.end(Away(fault, decision.at))
        self.end_if_fatal(fault)
        return decision

    def end_if_fatal(self, fault: Fault) -> None:
        """End the task if this fault is one that ends it."""
        if self.policy.ends_task(fault):
            self.end(Failed(fault.kind, fault.advice or fault.raw, drain=True))

    def connection_failed(self) -> bool:
        """Start a backoff of the endpoints. Returns False for a duplicate report of a known failure."""
        return self.endpoints.failed(self.clock.now(), self.jitter())

    async def reached(self, *sides: Side, lanes: bool = False) -> None:
        """Sessions to these sides, or lanes, were opened: clear the trouble that the user was shown."""
        if self._troubled:
            self._troubled = not lanes
            await self.store.reached(sides, lanes=lanes)

    async def unreachable(self, fault: Fault, *, lanes: bool = False) -> None:
        """A session, or one for a lane, could not be opened: start a backoff and report it to the user.

        Raises LeaseLostError.
        """
        self.lease.check()
        attempts = self.endpoints.failures
        if fault.kind not in AWAY_KINDS and not self.connection_failed():
            return
        decision = self.decide(fault, attempts)
        if isinstance(decision, Fail):
            self.end(Failed(fault.kind, self._explain(fault, decision.why)))
        elif isinstance(decision, Retry):
            await self.report_trouble(fault, self.endpoints.until or decision.at, lanes=lanes)

    async def report_trouble(self, fault: Fault, until: datetime, *, lanes: bool = False) -> None:
        """Make this fault the status of the task; lanes: until a lane is opened, or the task ends."""
        self._troubled = True
        await self.store.endpoint_failed(fault, until, lanes=lanes)

    def _silent(self, side: Side) -> None:
        """Report at once that a server has not answered for a while, so that other tasks of the user may begin."""
        fault = make_fault(Kind.TIMEOUT, f"no answer for {QUIET:g} s", side=side)
        until = self.clock.now() + timedelta(seconds=STALL_TIMEOUT - QUIET)
        self._spawn_while_running(self.report_trouble(fault, until))

    def _spawn_while_running(self, part: Coroutine[Any, Any, None]) -> None:
        if self.ended.done():
            part.close()
        else:
            self.spawn(part)

    def _explain(self, fault: Fault, why: str) -> str:
        """The reason why an endpoint ends the task: the endpoint, and the reply of its server."""
        text = Sentence(why)
        if fault.side is Side.SOURCE:
            text = Sentence("%(endpoint)s (the source): %(why)s", endpoint=self.spec.source.name, why=text)
        elif fault.side is Side.DESTINATION and self.spec.destination:
            text = Sentence("%(endpoint)s (the destination): %(why)s", endpoint=self.spec.destination.name, why=text)
        if fault.raw and fault.raw != why:
            said = fault.raw[:MAX_REPLY_LENGTH]
            return Sentence("%(what)s The server said: %(message)s", what=text, message=said)
        return text

    def is_blocked(self) -> bool:
        """Whether no connection is to be opened now. Cheap, because it is called before each file."""
        return self.endpoints.until is not None and self.seconds_blocked() > 0

    def resume_after_backoff(self) -> None:
        """Have the slice wait for the end of the backoff, if there is one, and resume its parts then."""
        if self.is_blocked():
            self.more_to_do()

    async def wait_out_backoff(self) -> bool:
        """Wait for the end of a short backoff of the endpoints. Returns True for a long one, without waiting."""
        seconds = self.seconds_blocked()
        if 0 < seconds <= LONGEST_WAIT:
            await self.clock.sleep(seconds)
        return seconds > LONGEST_WAIT

    def seconds_blocked(self) -> float:
        """Seconds for which no connection is to be opened."""
        return self.endpoints.seconds_left(self.clock.now())


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these, and wait until each has ended, in whatever way."""
    canceled = list(tasks)
    for task in canceled:
        task.cancel()
    await asyncio.gather(*canceled, return_exceptions=True)


async def wait_for(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, or so many seconds have passed. Returns whether it is set."""
    await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these has ended, and cancel the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
