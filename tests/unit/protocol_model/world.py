"""A model of one task with one file: its lease, its workers, their fences, and what a server does with their commands.

Each move is one step of one of them, and moves come in any order. So each worker may stand still between any two steps
for as long as the clock likes, and a command waits in the socket of its server for as long as the server likes, also
after the worker has died. A slice that holds a lease is called by the number of that lease: the worker that lost
lease 0, and goes on, is slice 0.

The clock ticks in units of a third of a lease (`Lease.left`, `Slice.fence`): TTL and FENCE have the order and the
distance of the real 5 s and 3.5 s, with the times on the way in between.

The model leaves out:

- More than one file, lane and server; ranges, checksums, folders, links. The rules of a lane (files that shift, DELE
  after a refusal) have a model of their own (tests/unit/gridftp/test_pair.py). A lane that is lost within a lease does
  at the server what a lost worker does: its file is sent again under a new name, after the removal of the old one.
- Sources: each worker reads the same content. A source that changes is tried in tests/faults.
- What ends a worker, such as the answer that it has lost its lease: one that stands still for ever does nothing,
  either.
- A command is sent as soon as the fence is looked at. Between the look and the call of the kernel a process may be
  stopped, for a microsecond of each piece (docs/decisions/leases-and-fence.md).
- A server that keeps on disk what it has in memory for another offset than it was sent, or loses what it has answered.
- A removal that no server answers: its name is tried again before the end of the slice, and stays after that.
- The second look (workers/engine/settle/second_look.py), which finds most late commands within a task, and no later
  ones.
- Clocks of different speeds; a database that answers a commit that it does not keep, but for `Rules.failover`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

#: Ticks of a lease from a heartbeat's execution, and of a fence from its beginning.
TTL, FENCE = 3, 2
#: Contents of an inode: a set of blocks of the source's file as bits, or what the user wrote, whole or changed.
WHOLE, USERS, SPOILED = 0b11, 0b100, 0b101
#: Number of the real name; the own name of slice k is k + 1.
REAL = 0
NONE = -1


@dataclass(frozen=True)
class Rules:
    """The behavior of the product, and of the machines.

    own_names: a file is written under a name of its lease, and renamed. False: as where an entry of that name is there,
    in place; a slice after a lost one uses its own name nevertheless, because the file is suspect. replaces: the server
    gives a file its real name by SITE WAYBILL REPLACE, and an entry of that name is there.
    fence: octets leave only while it is open. from_beginning: it counts from the beginning of a heartbeat.
    nonce: the database compares the nonce of a lease with its epoch. removes_lost: a slice first removes what lost ones
    may have left. late_servers: commands may wait at a server for longer than a tick. all_hang_up: a worker that has
    lost its lease has been killed, and the kernel of its machine has said so. executes_for_the_gone: a server executes
    what a client that has disconnected had sent. failover: a standby without the last lease may take over.
    """

    delete: bool = False
    own_names: bool = True
    replaces: bool = False
    fence: bool = True
    from_beginning: bool = True
    nonce: bool = True
    removes_lost: bool = True
    late_servers: bool = True
    all_hang_up: bool = False
    executes_for_the_gone: bool = True
    failover: bool = False
    leases: int = 2


class Step(IntEnum):
    """The next step of a slice."""

    CLEAN = 0
    CLEANED = 1
    SEND = 2
    SENT = 3
    RENAME = 4
    RENAMED = 5
    SETTLE = 6
    FINISH = 7
    OVER = 8


class Heart(IntEnum):
    """Of the heartbeat that is under way."""

    NONE = 0
    SENT = 1
    GOOD = 2


class Lease(NamedTuple):
    """The row in the database. holder: the slice whose nonce it has."""

    epoch: int = 0
    holder: int = NONE
    left: int = 0


class Session(NamedTuple):
    """A connection and the process of the server behind it.

    inode: what a STOR writes to; blocks: of it, how many. chosen: the name of RNFR. answer: of the last command.
    """

    commands: tuple[tuple[str, int], ...] = ()
    inode: int = NONE
    blocks: int = 0
    chosen: int = NONE
    answer: bool | None = None
    hung_up: bool = False

    @property
    def busy(self) -> bool:
        return bool(self.commands) or self.inode != NONE


class Slice(NamedTuple):
    """One lease's work, whether its worker knows that the lease is over or not. since: ticks of the heartbeat."""

    epoch: int
    step: Step
    opened: bool = False
    fence: int = 0
    heart: Heart = Heart.NONE
    since: int = 0
    session: Session = Session()


class World(NamedTuple):
    """names: an inode for each name, or NONE. filled: the user has written the real name after SUCCEEDED."""

    names: tuple[int, ...]
    inodes: tuple[int, ...]
    lease: Lease = Lease()
    #: The row that a standby has which lacks the last lease.
    standby: Lease | None = None
    lost: tuple[int, ...] = ()
    slices: tuple[Slice, ...] = ()
    settled: bool = False
    succeeded: bool = False
    filled: bool = False

    @property
    def real(self) -> int | None:
        """The content under the real name; None if there is no such entry."""
        inode = self.names[REAL]
        return None if inode == NONE else self.inodes[inode]


class Model:
    """The moves of a world under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def start(self) -> World:
        """An entry is there where something is deleted, or overwritten in place."""
        own = (NONE,) * self.rules.leases
        there = self.rules.delete or self.rules.replaces or not self.rules.own_names
        return World((0 if there else NONE, *own), (0,) if there else ())

    def problem(self, world: World) -> str:
        """How the promise of SUCCEEDED is broken, until the user writes that name; and then the user's file."""
        if world.filled:
            return "" if world.real == USERS else "what the user wrote after SUCCEEDED was touched"
        if not world.succeeded:
            return ""
        expected = None if self.rules.delete else WHOLE
        return "" if world.real == expected else f"SUCCEEDED, and under the real name is {world.real}"

    def two_hold(self, world: World) -> str:
        """Whether the database takes the word of two slices."""
        holders = [number for number in range(len(world.slices)) if self._holds(world, number)]
        return f"the database hears slices {holders}" if len(holders) > 1 else ""

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._of_database(world)
        for number, one in enumerate(world.slices):
            if one.step is not Step.OVER:
                if one.session.busy or self.rules.all_hang_up:
                    yield f"worker {number} dies", _put(world, number, _over(one))
                yield from self._of_heart(world, number, one)
                yield from self._of_slice(world, number, one)
            yield from self._of_server(world, number, one)
        if world.succeeded and not world.filled:
            yield "the user writes", _written(world, USERS)._replace(filled=True)
        if self.rules.late_servers or not any(one.session.busy for one in world.slices):
            yield "tick", _ticked(world)

    # ---- the database

    def _of_database(self, world: World) -> Iterator[tuple[str, World]]:
        number, lease = len(world.slices), world.lease
        if world.standby is not None:
            yield "a standby without the last lease takes over", world._replace(lease=world.standby, standby=None)
        if world.succeeded or lease.left or number == self.rules.leases:
            return
        if self.rules.all_hang_up and any(one.step is not Step.OVER for one in world.slices):
            return
        lost = world.lost if lease.holder == NONE else (*world.lost, lease.holder)
        begun = Slice(lease.epoch + 1, self._first_step(world, lost))
        yield (
            f"worker {number} takes the task",
            world._replace(
                lease=Lease(lease.epoch + 1, number, TTL),
                standby=lease if self.rules.failover and not number else world.standby,
                lost=lost,
                slices=(*world.slices, begun),
            ),
        )

    def _first_step(self, world: World, lost: tuple[int, ...]) -> Step:
        if world.settled:
            return Step.FINISH
        return Step.CLEAN if lost and self.rules.removes_lost and not self.rules.delete else Step.SEND

    def _holds(self, world: World, number: int) -> bool:
        """A lease that has run out may write while nobody else has it: a transaction that began before outlasts it."""
        one, lease = world.slices[number], world.lease
        same = lease.epoch == one.epoch and (not self.rules.nonce or lease.holder == number)
        return same and one.step is not Step.OVER and not world.succeeded

    # ---- a worker

    def _of_heart(self, world: World, number: int, one: Slice) -> Iterator[tuple[str, World]]:
        holds = self._holds(world, number) and world.lease.left > 0
        match one.heart:
            case Heart.NONE if holds:
                yield f"heartbeat of {number} begins", _put(world, number, one._replace(heart=Heart.SENT, since=0))
            case Heart.SENT:
                yield f"heartbeat of {number} fails", _put(world, number, one._replace(heart=Heart.NONE, since=0))
                if holds:
                    renewed = world._replace(lease=world.lease._replace(left=TTL))
                    yield f"heartbeat of {number} is good", _put(renewed, number, one._replace(heart=Heart.GOOD))
            case Heart.GOOD:
                yield f"worker {number} hears of its heartbeat", _put(world, number, self._heard(one))

    def _heard(self, one: Slice) -> Slice:
        quiet = one._replace(heart=Heart.NONE, since=0)
        if not self.rules.fence or (one.opened and not one.fence):
            return quiet
        lasts = FENCE - one.since if self.rules.from_beginning else FENCE
        return quiet._replace(opened=True, fence=max(one.fence, lasts))

    def _of_slice(self, world: World, number: int, one: Slice) -> Iterator[tuple[str, World]]:
        if one.step in _QUESTIONS:
            if one.session.answer is not None:
                yield f"worker {number} reads an answer", _put(world, number, self._answered(number, one))
        elif one.step is Step.SETTLE:
            if self._holds(world, number):
                settled = _put(world, number, one._replace(step=Step.FINISH))
                yield f"worker {number} settles the file", settled._replace(settled=True)
        elif one.step is Step.FINISH:
            if self._holds(world, number):
                ended = _put(world, number, _over(one))
                yield f"worker {number}: SUCCEEDED", ended._replace(succeeded=True, lease=world.lease._replace(left=0))
        elif one.fence or not self.rules.fence:
            commands = self._commands(world, number, one.step)
            words = ", ".join(f"{verb} {_words(name)}" for verb, name in commands)
            session = one.session._replace(commands=one.session.commands + commands, answer=None)
            asked = one._replace(step=Step(one.step + 1), session=session)
            yield f"worker {number} sends {words}", _put(world, number, asked)

    def _commands(self, world: World, number: int, step: Step) -> tuple[tuple[str, int], ...]:
        if step is Step.CLEAN:
            return tuple(("DELE", lost + 1) for lost in world.lost)
        if self.rules.delete:
            return (("DELE", REAL),)
        if step is Step.SEND:
            return (("STOR", self._name(number)),)
        if self.rules.replaces:
            return (("REPLACE", self._name(number)),)
        return (("RNFR", self._name(number)), ("RNTO", REAL))

    def _name(self, number: int) -> int:
        return number + 1 if self.rules.own_names or number else REAL

    def _answered(self, number: int, one: Slice) -> Slice:
        session = one.session._replace(answer=None)
        if one.step is Step.CLEANED:
            return one._replace(step=Step.SEND, session=session)
        if self.rules.delete:
            return one._replace(step=Step.SETTLE, session=session)
        if not one.session.answer:
            return _over(one)
        renames = one.step is Step.SENT and self._name(number) != REAL
        return one._replace(step=Step.RENAME if renames else Step.SETTLE, session=session)

    # ---- a server

    def _of_server(self, world: World, number: int, one: Slice) -> Iterator[tuple[str, World]]:
        session = one.session
        if not session.busy:
            return
        if session.hung_up:
            yield f"the session of {number} ends", _put(world, number, one._replace(session=Session(hung_up=True)))
        if session.inode != NONE:
            yield f"a block of {number} is written", self._block(world, number)
        elif not session.hung_up or self.rules.executes_for_the_gone:
            verb, name = session.commands[0]
            rest = session._replace(commands=session.commands[1:])
            yield f"{verb} {_words(name)} of {number} is executed", _execute(world, number, rest, verb, name)

    def _block(self, world: World, number: int) -> World:
        session = world.slices[number].session
        inodes = list(world.inodes)
        content = inodes[session.inode]
        inodes[session.inode] = SPOILED if content in (USERS, SPOILED) else content | 1 << session.blocks
        session = session._replace(blocks=session.blocks + 1)
        if session.blocks == WHOLE.bit_length():
            session = session._replace(inode=NONE, blocks=0, answer=True)
        return _served(world._replace(inodes=tuple(inodes)), number, session)


_QUESTIONS = (Step.CLEANED, Step.SENT, Step.RENAMED)


def _words(name: int) -> str:
    return "the real name" if name == REAL else f"the own name of {name - 1}"


def _over(one: Slice) -> Slice:
    """It says nothing any more, and hangs up."""
    session = one.session._replace(hung_up=True)
    return Slice(one.epoch, Step.OVER, session=session if session.busy else Session(hung_up=True))


def _put(world: World, number: int, one: Slice) -> World:
    slices = world.slices
    return world._replace(slices=(*slices[:number], one, *slices[number + 1 :]))


def _served(world: World, number: int, session: Session) -> World:
    """The session after a command. Nobody reads the answers to one that has disconnected."""
    if session.hung_up:
        session = session._replace(answer=None) if session.busy else Session(hung_up=True)
    return _tidy(_put(world, number, world.slices[number]._replace(session=session)))


def _execute(world: World, number: int, session: Session, verb: str, name: int) -> World:
    names, inodes = list(world.names), list(world.inodes)
    if verb == "STOR":
        if names[name] == NONE:
            names[name] = len(inodes)
            inodes.append(0)
        inode = names[name]
        inodes[inode] = SPOILED if inodes[inode] in (USERS, SPOILED) else 0
        session = session._replace(inode=inode, blocks=0)
    elif verb == "DELE":
        session = session._replace(answer=names[name] != NONE)
        names[name] = NONE
    elif verb == "RNFR":
        session = session._replace(chosen=name if names[name] != NONE else NONE)
    else:
        written = name if verb == "REPLACE" else session.chosen
        done = written != NONE and names[written] != NONE
        if done:
            names[REAL], names[written] = names[written], NONE
        session = session._replace(chosen=NONE, answer=done)
    if session.commands:
        session = session._replace(answer=None)
    return _served(world._replace(names=tuple(names), inodes=tuple(inodes)), number, session)


def _written(world: World, content: int) -> World:
    """The user writes over what lies under the real name."""
    inode = world.names[REAL]
    if inode == NONE:
        names = (len(world.inodes), *world.names[1:])
        return _tidy(world._replace(names=names, inodes=(*world.inodes, content)))
    inodes = world.inodes
    return world._replace(inodes=(*inodes[:inode], content, *inodes[inode + 1 :]))


def _ticked(world: World) -> World:
    lease = world.lease._replace(left=max(0, world.lease.left - 1))
    slices = tuple(
        one._replace(fence=max(0, one.fence - 1), since=min(FENCE, one.since + 1) if one.heart else 0)
        for one in world.slices
    )
    return world._replace(lease=lease, slices=slices)


def _tidy(world: World) -> World:
    """The same world, with the inodes that are in use, numbered in the order of their uses."""
    uses = [*world.names, *(one.session.inode for one in world.slices)]
    order = {inode: number for number, inode in enumerate(dict.fromkeys(one for one in uses if one != NONE))}
    order[NONE] = NONE
    inodes = tuple(world.inodes[inode] for inode in order if inode != NONE)
    slices = tuple(one._replace(session=one.session._replace(inode=order[one.session.inode])) for one in world.slices)
    return world._replace(names=tuple(order[name] for name in world.names), inodes=inodes, slices=slices)
