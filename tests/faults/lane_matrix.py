"""One fault at one step of a lane's dialogue, and all that must hold afterwards.

The files are moved as the engine moves them: what is given back goes through the same lane again, or, after the lane
was lost, through a new one under a temporary name.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import (
    FileProgress,
    FileRefused,
    FileReturned,
    FileSettled,
    PairEvent,
    Transfer,
)
from tests.faults.scenes import REAL_REFUSALS, SCENES, Arena, Piece, on_disk
from tests.faults.stations import Station
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan, Step

#: Seconds without a word after which a lane is lost; long where nothing falls silent, so that only a bug needs it.
STALL, SILENT_STALL = 10.0, 0.4
#: Seconds for any one event, whatever happens. Beyond it, it hangs.
HANG = 20.0
ATTEMPTS = 8


class Trouble(enum.Enum):
    """The fault that is injected at the step."""

    REFUSED = Deed.REFUSE
    PERMANENT_ERROR = Deed.PERMANENT_ERROR
    TRANSIENT_ERROR = Deed.TRANSIENT_ERROR
    CLOSED = Deed.CLOSE
    RESET = Deed.RESET
    HALF_OPEN = Deed.HANG
    DELAYED = Deed.DELAY
    CUT = Deed.HALF_LINE_THEN_CLOSE
    GARBAGE = Deed.GARBAGE
    ENDLESS = Deed.ENDLESS_LINE
    KILLED = "SIGKILL to the process that serves"
    FROZEN = "SIGSTOP to it, and it goes on as soon as the lane is lost"
    FROZEN_LONG = "SIGSTOP to it, and it goes on when all is over"
    WORKER_KILLED = "SIGKILL to the worker"

    @property
    def deed(self) -> Deed:
        return self.value if isinstance(self.value, Deed) else Deed.CALL

    @property
    def silent(self) -> bool:
        return self in (Trouble.HALF_OPEN, Trouble.ENDLESS, Trouble.FROZEN, Trouble.FROZEN_LONG)


class Case(NamedTuple):
    """trouble None: a good run."""

    scene: str
    stream: bool = False
    trouble: Trouble | None = None
    at_source: bool = False
    step: Step | None = None

    def __str__(self) -> str:
        side = "source" if self.at_source else "destination"
        what = self.trouble.name if self.trouble else "nothing"
        return f"{self.scene}, mode {'S' if self.stream else 'E'}: {what} at the {side}'s {self.step}"


@dataclass
class Verdict:
    """problems: what must not be, in words. remains: failed files under whose name something was left."""

    case: Case
    problems: list[str] = field(default_factory=list)
    came_true: bool = False
    left_over: int = 0
    remains: int = 0
    faults: set[Kind] = field(default_factory=set)
    seconds: float = 0.0
    steps: dict[bool, list[Step]] = field(default_factory=dict)


def cases_of(good: Verdict, troubles: list[Trouble]) -> Iterator[Case]:
    """Each trouble at each step of both sides that the good run went through."""
    for at_source, steps in good.steps.items():
        for step in steps:
            for trouble in troubles:
                if step.allows(trouble.deed):
                    yield good.case._replace(trouble=trouble, at_source=at_source, step=step)


async def run_case(arena: Arena, case: Case) -> Verdict:
    """Move the scene's files under this fault."""
    await arena.ready()
    arena.set_up(case.scene)
    verdict = Verdict(case)
    begun = time.monotonic()
    try:
        async with _proxy(arena, case, at_source=True) as source, _proxy(arena, case, at_source=False) as destination:
            run = _Run(arena, verdict, source, destination)
            await run.move_all()
            verdict.came_true = bool(source.deeds + destination.deeds)
    except TimeoutError:
        verdict.problems.append("it hangs")
    verdict.seconds = time.monotonic() - begun
    arena.thaw()
    verdict.left_over = await arena.left_over()
    _judge(arena, verdict)
    return verdict


def _proxy(arena: Arena, case: Case, *, at_source: bool) -> MisbehavingProxy:
    station = arena.source if at_source else arena.destination
    plan = None
    if case.trouble and case.step and case.at_source is at_source:
        plan = Plan(case.step, case.trouble.deed)
    return MisbehavingProxy(station.port, plan, _hook(station, case.trouble))


def _hook(station: Station, trouble: Trouble | None) -> Callable[[int], object]:
    return station.kill if trouble is Trouble.KILLED else station.freeze


def _judge(arena: Arena, verdict: Verdict) -> None:
    """At the end, when nobody writes any more."""
    pieces = SCENES[verdict.case.scene]
    if wrong := arena.wrong([piece for piece in pieces if piece.good]):
        verdict.problems.append(f"wrong in the end: {wrong}")
    verdict.remains = sum((arena.there / piece.name).is_file() for piece in pieces if not piece.good)


@dataclass
class _Sending:
    piece: Piece
    transfer: Transfer


class _Run:
    def __init__(self, arena: Arena, verdict: Verdict, source: MisbehavingProxy, destination: MisbehavingProxy) -> None:
        self.arena = arena
        self.verdict = verdict
        self.proxies = (source, destination)
        self.silent = bool(verdict.case.trouble and verdict.case.trouble.silent)
        self.settled: dict[str, Piece] = {}
        self.waiting = [self.first(piece) for piece in SCENES[verdict.case.scene]]
        self.attempt = 0

    # ---- what is sent

    def first(self, piece: Piece) -> _Sending:
        source = self.arena.source.path(self.arena.here(self.verdict.case.scene) / piece.name)
        target = self.arena.destination.path(self.arena.there / piece.name)
        transfer = Transfer(piece.name, source, target, piece.size, ranges=on_disk(piece))
        return _Sending(piece, self.renamed(transfer) if piece.temporary else transfer)

    def renamed(self, transfer: Transfer) -> Transfer:
        target = transfer.rename_to or transfer.write_path
        self.attempt = getattr(self, "attempt", 0) + 1
        return transfer._replace(write_path=target + b".tmp%d" % self.attempt, rename_to=target, ranges=None)

    # ---- lanes, one after another

    async def move_all(self) -> None:
        for _ in range(ATTEMPTS):
            await self.arena.ready()
            lane = await self.open()
            if lane is None:
                continue
            while self.waiting and lane.alive:
                await self.pass_through(lane)
            if not self.waiting:
                self.verdict.steps = {True: list(self.proxies[0].steps), False: list(self.proxies[1].steps)}
            await self.close(lane)
            if not self.waiting:
                return
            if self.verdict.case.trouble is Trouble.FROZEN:
                self.arena.thaw()
        self.problem(f"not settled after {ATTEMPTS} tries: {[one.piece.name for one in self.waiting]}")

    async def open(self) -> ThirdPartyLane | None:
        timeout = 1.0 if self.silent else 10.0
        sessions: list[GridFTPSession] = []
        try:
            for proxy in self.proxies:
                sessions.append(await GridFTPSession.open("127.0.0.1", proxy.port, timeout=timeout))
        except FaultError as error:
            self.verdict.faults.add(error.fault.kind)
            for session in sessions:
                session.connection.abort()
            self.arena.thaw()
            return None
        return self.lane(*sessions)

    def lane(self, source: GridFTPSession, destination: GridFTPSession) -> ThirdPartyLane:
        return ThirdPartyLane(
            source,
            destination,
            parallelism=2,
            stream_mode=self.verdict.case.stream,
            accept_address=lambda _: True,
            stall_timeout=SILENT_STALL if self.silent else STALL,
        )

    async def pass_through(self, lane: ThirdPartyLane) -> None:
        """Feed all that waits, and hear what becomes of it."""
        under_way = {one.piece.name: one for one in self.waiting}
        self.waiting = []
        for sending in under_way.values():
            lane.feed(sending.transfer)
        while under_way:
            async with asyncio.timeout(HANG):
                events = await lane.events()
            for event in events:
                if not isinstance(event, FileProgress):
                    self.hear(under_way.pop(str(getattr(event, "tag", None))), event, alive=lane.alive)
        if wrong := self.arena.wrong(self.settled.values()):
            self.problem(f"settled and wrong: {wrong}")

    async def close(self, lane: ThirdPartyLane) -> None:
        """Give the sessions back: what is clean must be of use, all else be gone."""
        sessions = lane.release()
        if sessions is None:
            if lane.source.usable or lane.destination.usable:
                self.problem("a session of a lost lane is still open")
            return
        if not self.waiting and self.verdict.case.trouble:
            await self.use_again(self.lane(*sessions))
        for session in sessions:
            await session.close()
        await asyncio.sleep(0)  # aborted transports close their sockets in the loop's next turn

    async def use_again(self, lane: ThirdPartyLane) -> None:
        """A clean pair of sessions moves a file as it should."""
        piece = next(piece for piece in SCENES[self.verdict.case.scene] if piece.good)
        target = self.arena.there / "again"
        first = self.first(piece).transfer
        lane.feed(first._replace(write_path=self.arena.destination.path(target), rename_to=None))
        async with asyncio.timeout(HANG):
            events = await lane.events()
        clean = lane.release()
        if clean and not (isinstance(events[-1], FileSettled) and target.read_bytes() == piece.content):
            self.problem(f"sessions that were called clean moved a file wrongly: {events}")

    # ---- what becomes of a file

    def hear(self, sending: _Sending, event: PairEvent, *, alive: bool) -> None:
        match event:
            case FileSettled():
                self.settle(sending.piece)
            case FileRefused(unnamed=True):
                self.write_in_place(sending)
            case FileRefused(_, fault, trusted):
                self.verdict.faults.add(fault.kind)
                if fault.kind is Kind.TIMEOUT and not self.silent:
                    self.problem("only the stall limit found it")
                if sending.piece.good or fault.kind not in REAL_REFUSALS:
                    self.again(sending, suspect=not alive, trusted=trusted)
            case FileReturned(_, suspect):
                self.again(sending, suspect=suspect, trusted=None)

    def settle(self, piece: Piece) -> None:
        if piece.name in self.settled or not piece.good:
            self.problem(f"{piece.name} cannot have been settled")
        self.settled[piece.name] = piece

    def again(self, sending: _Sending, *, suspect: bool, trusted: RangeSet | None) -> None:
        if not (suspect or trusted or self.is_lied_to()) and self.lies_there(sending):
            self.problem(f"{sending.piece.name} was given back with wrong octets under its name")
        transfer = sending.transfer._replace(ranges=trusted)
        if suspect and not trusted:
            transfer = self.renamed(transfer)
        self.waiting.append(_Sending(sending.piece, transfer))

    def write_in_place(self, sending: _Sending) -> None:
        """The server does not give it the name of a file that exists: as the engine does."""
        transfer = sending.transfer
        if transfer.rename_to is None:
            self.problem(f"{sending.piece.name} was refused a name that it did not ask for")
            return
        in_place = transfer._replace(write_path=transfer.rename_to, rename_to=None, ranges=None)
        self.waiting.append(_Sending(sending.piece, in_place))

    def is_lied_to(self) -> bool:
        """Whether the fault hides that the destination opened a file, or prevents the deletion of one."""
        step, trouble = self.verdict.case.step, self.verdict.case.trouble
        falsified = trouble in (Trouble.PERMANENT_ERROR, Trouble.TRANSIENT_ERROR)
        return step is not None and (step.verb == "DELE" or (falsified and step.verb == "STOR"))

    def lies_there(self, sending: _Sending) -> bool:
        """Another lane may have the file at once: nothing may be removed, or be there, under its name any more."""
        if sending.piece.begun or sending.transfer.rename_to is not None:
            return False
        return (self.arena.there / sending.piece.name).is_file()

    def problem(self, words: str) -> None:
        self.verdict.problems.append(words)
