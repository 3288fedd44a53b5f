"""The pair whose source listens, against a model: ports are taken again, strangers come, packets are late.

All files have one size, and the model gives a connection to whoever listens at its port when it arrives, as a network
does. So a file that met another one's port looks right on both sides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Kind, Side
from endpoints.gridftp.third_party.data_path import DataAddress, DataPath
from endpoints.gridftp.third_party.listening_source import BUFFERED, MOST_SAME_PORTS, ListeningSourcePair
from endpoints.gridftp.third_party.pair_states import PairState
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileReturned, FileSettled, Flush, Transfer

SIZE = 1000
NAMES = [b"f%d" % index for index in range(8)]
names = st.sets(st.sampled_from(NAMES), max_size=8)
#: Refusals of a file itself; any other fault is one of its connection.
OWN = {Kind.FILE_NOT_FOUND, Kind.PERMISSION_DENIED}


@dataclass
class Connection:
    """On its way until it has been accepted or reset. content: what its other side has sent."""

    port: int
    arrived: bool = False
    reset: bool = False
    content: bytes | None = None


@dataclass
class Server:
    refuse: set[bytes]
    channel: ControlChannel = field(default_factory=ControlChannel)
    queue: deque[bytes] = field(default_factory=deque)
    replies: deque[bytes] = field(default_factory=lambda: deque([b"220 model\r\n"]))

    #: Connections that this server has begun.
    made: list[Connection] = field(default_factory=list)

    def listen_to_client(self) -> None:
        for line in self.channel.data_to_send().split(b"\r\n")[:-1]:
            self.queue.append(line)
            self.came(line)

    def came(self, line: bytes) -> None:
        pass

    def step(self) -> bool:
        """Work on the next command; False when there is none, or it has to wait and has done nothing."""
        if not self.queue:
            return False
        verb, _, argument = self.queue[0].partition(b" ")
        begun = len(self.made)
        replies = getattr(self, verb.decode().lower(), self.other)(argument)
        if replies is None:
            return len(self.made) > begun
        self.queue.popleft()
        self.replies += replies
        return True

    def other(self, _: bytes) -> list[bytes] | None:
        return [b"200 fine\r\n"]


@dataclass
class Source(Server):
    """choose_port: the port of the next PASV."""

    choose_port: Callable[[], int] = lambda: 1
    port: int | None = None
    backlog: list[Connection] = field(default_factory=list)

    def close(self) -> None:
        self.port = None
        for one in self.backlog:
            one.reset = True
        self.backlog.clear()

    def pasv(self, _: bytes) -> list[bytes]:
        self.close()
        self.port = self.choose_port()
        return [b"227 Entering Passive Mode (127,0,0,1,4,%d)\r\n" % self.port]

    def retr(self, path: bytes) -> list[bytes] | None:
        if path in self.refuse:
            self.close()
            return [b"500-Command failed.\r\n500-No such file or directory\r\n500 End.\r\n"]
        if not self.backlog:
            return None
        self.backlog.pop(0).content = b"content of " + path
        self.close()
        return [b"150 go\r\n", b"226 done\r\n"]


@dataclass
class Destination(Server):
    """ahead: it connects when PORT arrives, and not when it is executed."""

    ahead: bool = False
    disk: dict[bytes, bytes] = field(default_factory=dict)
    early: deque[Connection] = field(default_factory=deque)
    now: Connection | None = None
    target: int = 0

    def connect(self, port: int) -> Connection:
        self.made.append(Connection(port))
        return self.made[-1]

    def came(self, line: bytes) -> None:
        if self.ahead and line.startswith(b"PORT"):
            self.early.append(self.connect(int(line.rpartition(b",")[2])))

    def port(self, address: bytes) -> list[bytes]:
        self.target = int(address.rpartition(b",")[2])
        self.now = self.early.popleft() if self.ahead else None
        return [b"200 fine\r\n"]

    def stor(self, path: bytes) -> list[bytes] | None:
        if path in self.refuse:
            return [b"500-Command failed.\r\n500-Permission denied\r\n500 End.\r\n"]
        if self.now is None:
            self.now = self.connect(self.target)
            self.disk[path] = b""
        if self.now.content is not None:
            self.disk[path] = self.now.content
            return [b"150 go\r\n", b"111 Range Marker 0-%d\r\n" % SIZE, b"226 done\r\n"]
        return [b"150 go\r\n", b"426 Connection reset by peer\r\n"] if self.now.reset else None

    def dele(self, path: bytes) -> list[bytes]:
        self.disk.pop(path, None)
        return [b"250 OK.\r\n"]


class World:
    def __init__(
        self,
        missing: set[bytes],
        unwritable: set[bytes],
        *,
        ahead: bool,
        choose_port: Callable[[], int],
        strangers: int,
    ) -> None:
        self.source = Source(missing, choose_port=choose_port)
        self.destination = Destination(unwritable, ahead=ahead)
        self.servers: dict[Side, Server] = {Side.SOURCE: self.source, Side.DESTINATION: self.destination}
        for server in self.servers.values():
            list(server.channel.receive(server.replies.popleft()))
        self.strangers = strangers
        self.pair = ListeningSourcePair(
            self.source.channel,
            self.destination.channel,
            accept_address=lambda _: True,
            path=DataPath(peer="127.0.0.1", listener=Side.SOURCE, ours=True),
        )
        self.settled: list[bytes] = []
        self.refused: dict[bytes, Kind] = {}
        self.returned: deque[bytes] = deque()

    def feed(self, name: bytes) -> None:
        self.pair.send(Transfer(name, b"/src/" + name, b"/dst/" + name, SIZE))

    def moves(self) -> list[Callable[[], bool]]:
        found: list[Callable[[], bool]] = []
        for side, server in self.servers.items():
            server.listen_to_client()
            found += [server.step] if server.queue else []
            found += [partial(self.deliver, side)] if server.replies else []
        found += [partial(self.arrive, one) for one in self.destination.made if not one.arrived]
        if self.strangers and self.source.port is not None:
            found.append(self.stranger)
        return found

    def arrive(self, one: Connection) -> bool:
        one.arrived = True
        if self.source.port == one.port:
            self.source.backlog.append(one)
        else:
            one.reset = True
        return True

    def stranger(self) -> bool:
        self.strangers -= 1
        assert self.source.port is not None
        return self.arrive(Connection(self.source.port))

    def deliver(self, side: Side) -> bool:
        server = self.servers[side]
        for event in server.channel.receive(server.replies.popleft()):
            self.pair.handle(side, event)
        self.collect()
        return True

    def collect(self) -> None:
        for event in self.pair.take():
            match event:
                case FileSettled(bytes() as tag, octets):
                    assert octets == SIZE
                    assert self.destination.disk[b"/dst/" + tag] == b"content of /src/" + tag
                    self.settled.append(tag)
                case FileRefused(bytes() as tag, fault):
                    self.refused[tag] = fault.kind
                case FileReturned(bytes() as tag):
                    self.returned.append(tag)
                case Flush(host, port):
                    assert self.pair.waits_at((host, port))
                    self.destination.made.append(Connection(port - 4 * 256))
                case FileProgress():
                    pass

    def run(self, choose: Callable[[int], int], limit: int = 5_000) -> None:
        for _ in range(limit):
            moves = self.moves()
            while moves:
                if moves.pop(choose(len(moves)))():
                    break
            else:
                return
        raise AssertionError("the dialogue never ends")


@settings(max_examples=150, deadline=None)
@given(names, names, st.booleans(), st.integers(1, 4), st.integers(0, 6), st.data())
def test_whatever_ports_and_strangers_there_are_no_file_gets_anothers_content(
    missing: set[bytes], unwritable: set[bytes], ahead: bool, ports: int, strangers: int, data: st.DataObject
) -> None:
    choose = lambda count: data.draw(st.integers(0, count - 1)) if count > 1 else 0  # noqa: E731
    world = World(
        {b"/src/" + name for name in missing},
        {b"/dst/" + name for name in unwritable},
        ahead=ahead,
        choose_port=lambda: 1 + choose(ports),
        strangers=strangers,
    )
    waiting, rounds = deque(NAMES), 0
    while waiting and rounds < 40:
        rounds += 1
        for name in waiting:
            world.feed(name)
        waiting.clear()
        world.run(choose)
        assert world.pair.idle, "nothing waits for ever"
        again = [name for name, kind in world.refused.items() if kind not in OWN]
        waiting += [*world.returned, *again]
        world.returned.clear()
        for name in again:
            del world.refused[name]
    assert sorted(world.settled) == sorted(set(NAMES) - missing - unwritable)
    assert set(world.refused) == missing | unwritable
    assert set(world.destination.disk) == {b"/dst/" + name for name in world.settled}, "no octets are left elsewhere"


@settings(max_examples=100, deadline=None)
@given(names, st.integers(0, 80), st.sampled_from([Side.SOURCE, Side.DESTINATION]), st.booleans(), st.data())
def test_a_connection_lost_at_any_step_gives_each_file_back_once(
    missing: set[bytes], when: int, side: Side, ahead: bool, data: st.DataObject
) -> None:
    ports = iter(range(1, 1000))
    world = World({b"/src/" + n for n in missing}, set(), ahead=ahead, choose_port=lambda: next(ports), strangers=0)
    for name in NAMES:
        world.feed(name)
    for _ in range(when):
        if not (moves := world.moves()):
            break
        moves[data.draw(st.integers(0, len(moves) - 1))]()
    for event in world.servers[side].channel.receive_eof():
        world.pair.handle(side, event)
    world.collect()
    assert world.pair.state is PairState.LOST
    assert sorted([*world.settled, *world.refused, *world.returned]) == sorted(NAMES)
    world.feed(b"late")
    world.collect()
    assert world.returned[-1] == b"late"


def in_order(count: int) -> int:
    return 0


def counted(choose_port: Callable[[], int]) -> World:
    world = World(set(), set(), ahead=True, choose_port=choose_port, strangers=0)
    for name in NAMES:
        world.feed(name)
    return world


def test_the_source_has_the_commands_of_all_files_before_it_has_answered_one() -> None:
    ports = iter(range(1, 100))
    world = counted(lambda: next(ports))
    world.source.listen_to_client()
    wanted = [line for name in NAMES for line in (b"PASV", b"RETR /src/" + name)]
    assert [line for line in world.source.queue if line[:4] in (b"PASV", b"RETR")] == wanted
    world.run(in_order)
    assert world.settled == NAMES


def test_a_source_that_takes_one_port_again_and_again_gets_one_file_at_a_time() -> None:
    world = counted(lambda: 7)
    world.run(in_order)
    while world.returned:
        world.feed(world.returned.popleft())
        world.run(in_order)
    assert sorted(world.settled) == NAMES
    for name in NAMES:
        world.feed(name)
    world.source.listen_to_client()
    assert sum(line == b"PASV" for line in world.source.queue) == 1, f"after {MOST_SAME_PORTS} times"
    world.run(in_order)
    assert world.settled[-len(NAMES) :] == NAMES


@pytest.mark.parametrize("sizes", [(10, 20), (BUFFERED + 1, 10, 20, BUFFERED + 1)])
def test_the_source_gets_a_large_buffer_for_small_files_and_is_left_without(sizes: tuple[int, ...]) -> None:
    ports = iter(range(1, 100))
    world = World(set(), set(), ahead=True, choose_port=lambda: next(ports), strangers=0)
    for number, size in enumerate(sizes):
        world.pair.send(Transfer(b"%d" % number, b"/src/%d" % number, b"/dst/%d" % number, size))
    world.source.listen_to_client()
    seen = [line for line in world.source.queue if line.startswith((b"SBUF", b"RETR"))]
    small = [b"SBUF 1048576", *(b"RETR /src/%d" % number for number, size in enumerate(sizes) if size <= BUFFERED)]
    large = [b"RETR /src/%d" % number for number, size in enumerate(sizes) if size > BUFFERED]
    assert seen == (small if not large else [large[0], *small, b"SBUF 0", large[1]])
    world.run(in_order)
    world.pair.end()
    world.source.listen_to_client()
    assert list(world.source.queue) == ([] if large else [b"SBUF 0"])


def test_an_address_that_the_gate_refuses_is_never_sent_to_the_destination() -> None:
    source, destination = ControlChannel(), ControlChannel()
    for channel in (source, destination):
        list(channel.receive(b"220 hello\r\n"))

    def accept(address: DataAddress) -> bool:
        return address[0] != "10.0.0.1"

    path = DataPath(peer="127.0.0.1", listener=Side.SOURCE, ours=True)
    pair = ListeningSourcePair(source, destination, accept_address=accept, path=path)
    pair.send(Transfer(b"f", b"/f", b"/f"))
    for event in source.receive(b"200 ok\r\n" * 3 + b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n"):
        pair.handle(Side.SOURCE, event)
    assert pair.state is PairState.LOST
    assert b"PORT 10" not in destination.data_to_send()
    assert [type(event) for event in pair.take()] == [FileRefused]
