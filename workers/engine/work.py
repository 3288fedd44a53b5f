"""What the parts of a slice share: the ports, the deadline, the backoff, and how the slice ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from endpoints.gridftp.faults import Fault, Kind, Side

from .bounds import DEFAULT, Bounds, CrowdedError
from .credentials import Credentials
from .desk import Desk
from .paths import is_within
from .ports import Clock, SessionFactory, TaskSpec, TaskStore, TooMuchError
from .retry import Decision, EndpointBackoff, Fail, Policy, Retry, Suspend, decide

#: Seconds of backoff that are sat out with the lease in hand; for longer ones the place is given up.
PATIENCE = 5.0
#: How long a task is left alone that the memory of its worker has no room for.
CROWDED = timedelta(seconds=60)
#: Characters of a server's words in the last word of a task.
MOST_SAID = 1000


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The whole task is over: canceled, expired, or spoiled by a fault. drain: what is under way may still arrive."""

    code: str
    description: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Suspended:
    """A person must act."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Released:
    """Another slice goes on from `at`. drain: what is under way may still arrive."""

    at: datetime
    drain: bool = False


Ending = Finished | Failed | Suspended | Released


class Work:
    """One slice of one task."""

    def __init__(
        self,
        spec: TaskSpec,
        store: TaskStore,
        sessions: SessionFactory,
        credentials: Credentials,
        clock: Clock,
        jitter: Callable[[], float],
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.spec = spec
        self.store = store
        self.sessions = sessions
        self.credentials = credentials
        self.clock = clock
        self.jitter = jitter
        self.desk = Desk(sessions, bounds, self.reached)
        self._troubled = spec.troubled
        self.endpoints = EndpointBackoff(spec.connection_failures)
        self.policy = Policy.of(spec.options)
        self.deadline = clock.now()
        #: How the slice ends; the first word counts. An unexpected error of any part ends it too.
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        destination = spec.destination
        #: Source and destination are on the same servers: a file could be written over itself.
        self.same_endpoint = destination is not None and destination.host == spec.source.host
        #: Something happened that may let the slice go on, or end.
        self.wake = asyncio.Event()
        self._parts: set[asyncio.Task[None]] = set()

    def real(self, side: Side, path: str) -> str:
        """The path as the servers know it, to compare those of the two sides where `same_endpoint`."""
        end = self.spec.destination if side is Side.DESTINATION else self.spec.source
        if end is None or end.root is None:
            return path
        return end.root + (path[2:] if path.startswith("/~/") else path)

    def is_into_itself(self, source: str, destination: str) -> bool:
        """Whether the destination is the source, or lies in it, as far as the names tell."""
        inner, outer = self.real(Side.DESTINATION, destination), self.real(Side.SOURCE, source)
        return self.same_endpoint and is_within(inner, outer)

    def end(self, ending: Ending) -> None:
        """The slice ends like this, unless it has ended already."""
        if not self.ended.done():
            self.ended.set_result(ending)

    def spawn(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a part of the slice; its error ends the slice."""
        task = asyncio.get_running_loop().create_task(part)
        self._parts.add(task)
        task.add_done_callback(self._part_done)
        return task

    def _part_done(self, task: asyncio.Task[None]) -> None:
        self._parts.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, TooMuchError):
            self.end(Failed(Kind.LIMIT_EXCEEDED, error.reason, drain=True))
        elif isinstance(error, CrowdedError):
            self.end(Released(self.clock.now() + CROWDED, drain=True))
        elif error is not None and not self.ended.done():
            self.ended.set_exception(error)

    async def stop_parts(self, but: asyncio.Task[None] | None = None) -> None:
        """End all parts that still run, at once, but this one."""
        parts = [part for part in self._parts if part is not but]
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)

    def decide(self, fault: Fault, attempts: int, skip: Collection[Kind] = ()) -> Decision:
        """What to do about this fault; one that suspends the task, or spoils all of it, ends the slice."""
        now, jitter = self.clock.now(), self.jitter()
        renewable = self.credentials.renewable(fault.side)
        decision = decide(
            fault, attempts, now, self.deadline, jitter, skip=skip, policy=self.policy, renewable=renewable
        )
        if isinstance(decision, Suspend):
            self.end(Suspended(fault))
        self.end_if_spoiled(fault)
        return decision

    def end_if_spoiled(self, fault: Fault) -> None:
        """End the task by this fault, if it is one of those that do."""
        if self.policy.spoils_all(fault):
            self.end(Failed(fault.kind, fault.advice or fault.raw, drain=True))

    def connection_failed(self) -> bool:
        """Leave the endpoints alone for a while. False: an echo of a failure that is known."""
        return self.endpoints.failed(self.clock.now(), self.jitter())

    async def reached(self, *sides: Side, lanes: bool = False) -> None:
        """Sessions of these sides were opened, or lanes: what the user was told of them may be over."""
        if self._troubled:
            self._troubled = not lanes
            await self.store.reached(sides, lanes=lanes)

    async def unreachable(self, fault: Fault, *, lanes: bool = False) -> None:
        """A session, or one for a lane, could not be opened: back off, and tell the user."""
        attempts = self.endpoints.failures
        if not self.connection_failed():
            return
        decision = self.decide(fault, attempts)
        if isinstance(decision, Fail):
            self.end(Failed(fault.kind, self._in_full(fault, decision.why)))
        elif isinstance(decision, Retry):
            await self.in_trouble(fault, self.endpoints.until or decision.at, lanes=lanes)

    async def in_trouble(self, fault: Fault, until: datetime, *, lanes: bool = False) -> None:
        """Make this the status of the task; lanes: until a lane is opened, or the task is over."""
        self._troubled = True
        await self.store.endpoint_failed(fault, until, lanes=lanes)

    def _in_full(self, fault: Fault, why: str) -> str:
        """Why an endpoint ends the task: which one, and what its server said."""
        end = {Side.SOURCE: self.spec.source, Side.DESTINATION: self.spec.destination}.get(fault.side)
        where = f"{end.name} (the {fault.side}): " if end else ""
        said = f" The server said: {fault.raw[:MOST_SAID]}" if fault.raw and fault.raw != why else ""
        return f"{where}{why}{said}"

    def is_blocked(self) -> bool:
        """Whether the endpoints are to be left alone now. Cheap: asked before every feeding."""
        return self.endpoints.until is not None and self.seconds_blocked() > 0

    def seconds_blocked(self) -> float:
        """Seconds for which no connection is to be opened."""
        return self.endpoints.seconds_left(self.clock.now())


async def wait_for(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, or so many seconds have passed; whether it is set."""
    await first_of(event.wait(), clock.sleep(seconds))
    return event.is_set()


async def first_of(*things: Coroutine[Any, Any, object]) -> None:
    """Wait until one of these has happened; the others are given up."""
    tasks = [asyncio.ensure_future(thing) for thing in things]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
