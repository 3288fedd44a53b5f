"""The pair coordinator against a model of two toolkit servers, with their silent shift of contents.

The model answers strictly in order, caches its data channel, and has no identity per file on it: exactly what
makes a naive client report success for wrong contents. Hypothesis chooses the failures and every interleaving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Kind, Side, make_fault
from endpoints.gridftp.markers import SYNCED_FROM
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.third_party import slots
from endpoints.gridftp.third_party.data_path import DataAddress, DataPath, RelayPort
from endpoints.gridftp.third_party.pair import ThirdPartyPair
from endpoints.gridftp.third_party.pair_states import PairState
from endpoints.gridftp.third_party.slots import (
    HEAD,
    MAX_RANGES,
    FileProgress,
    FileRefused,
    FileReturned,
    FileSettled,
    Flush,
    Slot,
    Transfer,
)


class Data:
    """A data channel: contents in order, and whether an end closed it."""

    def __init__(self) -> None:
        self.contents: deque[bytes] = deque()
        self.opened = False
        self.closed = False


class Server:
    """Base of both models: a queue of commands, answered in order."""

    def __init__(self, refuse: set[bytes]) -> None:
        self.channel = ControlChannel()
        self.refuse = refuse
        self.queue: deque[bytes] = deque()
        self.replies: deque[bytes] = deque([b"220 model\r\n"])

    def listen_to_client(self) -> None:
        self.queue += self.channel.data_to_send().split(b"\r\n")[:-1]

    def step(self) -> bool:
        """Work on the next command; False when there is none or it has to wait."""
        if not self.queue:
            return False
        verb, _, argument = self.queue[0].partition(b" ")
        replies = getattr(self, verb.decode().lower(), self.other)(argument)
        if replies is None:
            return False
        self.queue.popleft()
        self.replies += replies
        return True

    def other(self, _: bytes) -> list[bytes] | None:
        return [b"200 fine\r\n"]

    def rest(self, _: bytes) -> list[bytes] | None:
        return [b"350 go on\r\n"]


class Destination(Server):
    def __init__(self, refuse: set[bytes]) -> None:
        super().__init__(refuse)
        self.disk: dict[bytes, bytes] = {}
        self.doors: list[Data] = []
        #: The one of the last PASV, or of a port of a relay.
        self.door = Data()
        self.renaming = b""
        #: It sends range markers.
        self.marks = True

    def pasv(self, _: bytes) -> list[bytes]:
        self.door.closed = True
        self.door = Data()
        self.doors.append(self.door)
        return [b"227 Entering Passive Mode (127,0,0,1,4,%d)\r\n" % len(self.doors)]

    def site(self, argument: bytes) -> list[bytes]:
        word, _, rest = argument.removeprefix(b"WAYBILL ").partition(b" ")
        return self.data(rest) if word == b"DATA" else self.replace(rest)

    def data(self, token: bytes) -> list[bytes]:
        """The channel is opened with the next file, and joined with who is at the port."""
        self.door.closed = True
        self.door = self.doors[int(token)]
        return [b"200 through the relay\r\n"]

    def replace(self, argument: bytes) -> list[bytes]:
        digits, _, paths = argument.partition(b" ")
        self.renaming, space, path = paths[: int(digits)], paths[int(digits) :][:1], paths[int(digits) + 1 :]
        assert space == b" "
        return self.rnto(path)

    def stor(self, path: bytes) -> list[bytes] | None:
        if path in self.refuse:
            return [b"500-Command failed.\r\n500-Permission denied\r\n500 End.\r\n"]
        self.disk[path] = b""
        door = self.door
        if door.contents:
            self.disk[path] = door.contents.popleft()
            size = len(self.disk[path])
            marker = b"111 Range Marker 0-%d\r\n" % size
            return [b"150 go\r\n", *([marker] if self.marks else []), b"226 done\r\n"]
        return [b"150 go\r\n", b"500 an end-of-file was reached\r\n"] if door.closed else None

    def dele(self, path: bytes) -> list[bytes]:
        return [b"250 OK.\r\n" if self.disk.pop(path, None) is not None else b"550 No such file or directory\r\n"]

    def rnfr(self, path: bytes) -> list[bytes]:
        self.renaming = path
        return [b"350 go on\r\n"]

    def rnto(self, path: bytes) -> list[bytes]:
        if self.renaming not in self.disk:
            return [b"550 No such file or directory\r\n"]
        self.disk[path] = self.disk.pop(self.renaming)
        return [b"250 OK.\r\n"]


class Source(Server):
    def __init__(self, refuse: set[bytes], peer: Destination) -> None:
        super().__init__(refuse)
        self.peer = peer
        self.target: Data | None = None

    def port(self, address: bytes) -> list[bytes]:
        self.target = self.peer.doors[int(address.rpartition(b",")[2]) - 1]
        return [b"200 fine\r\n"]

    def pasv(self, _: bytes) -> list[bytes]:
        # Only cached connections can be closed: a door that nobody came to stays shut in the destination's face.
        if self.target and self.target.opened:
            self.target.closed = True
        self.target = None
        return [b"227 Entering Passive Mode (127,0,0,1,9,9)\r\n"]

    def retr(self, path: bytes) -> list[bytes]:
        if path in self.refuse:
            return [b"500-Command failed.\r\n500-No such file or directory\r\n500 End.\r\n"]
        if self.target is None or self.target.closed:
            return [b"500 Connection reset by peer\r\n"]
        self.target.opened = True
        self.target.contents.append(b"content of " + path)
        return [b"150 go\r\n", b"226 done\r\n"]


class Ports:
    """The ports of a relay (`data_path.RelayPorts`), as doors of the destination."""

    exhausted = False

    def __init__(self, destination: Destination) -> None:
        self._doors = destination.doors

    def take(self) -> RelayPort:
        self._doors.append(Data())
        number = len(self._doors)
        return RelayPort(str(number - 1), ("127.0.0.1", 4 * 256 + number))

    def close(self, address: DataAddress) -> None:
        self._doors[address[1] - 4 * 256 - 1].closed = True

    def end(self) -> None:
        raise AssertionError("the pair leaves this to its lane")


class World:
    """Both models and the pair, moved step by step by a chooser."""

    def __init__(
        self,
        missing: set[bytes],
        unwritable: set[bytes],
        *,
        stream_mode: bool = False,
        relayed: bool = False,
        replaces: bool = False,
    ) -> None:
        self.destination = Destination(unwritable)
        self.ports = Ports(self.destination) if relayed else None
        self.source = Source(missing, self.destination)
        self.servers = {Side.SOURCE: self.source, Side.DESTINATION: self.destination}
        for server in self.servers.values():
            list(server.channel.receive(server.replies.popleft()))
        self.pair = ThirdPartyPair(
            self.source.channel,
            self.destination.channel,
            parallelism=2,
            stream_mode=stream_mode,
            path=DataPath(ours=relayed, replaces=replaces),
            entrances=self.ports,
        )
        self.settled: list[bytes] = []
        self.octets: list[int | None] = []
        self.refused: dict[bytes, Kind] = {}
        self.returned: deque[bytes] = deque()
        self.suspect: set[bytes] = set()

    def feed(self, name: bytes, **options: object) -> None:
        self.pair.send(Transfer(name, b"/src/" + name, b"/dst/" + name, 1000, **options))  # type: ignore[arg-type]

    def moves(self) -> list[Callable[[], bool]]:
        """All that could happen next."""
        found: list[Callable[[], bool]] = []
        for side, server in self.servers.items():
            server.listen_to_client()
            if server.queue:
                found.append(server.step)
            if server.replies:
                found.append(partial(self.deliver, side))
        return found

    def deliver(self, side: Side) -> bool:
        server = self.servers[side]
        for event in server.channel.receive(server.replies.popleft()):
            self.pair.handle(side, event)
        self.collect()
        return True

    def collect(self) -> None:
        for event in self.pair.take():
            match event:
                case FileSettled(tag, octets):
                    self.settled.append(tag)  # type: ignore[arg-type]
                    self.octets.append(octets)
                case FileRefused(tag, fault, _):
                    self.refused[tag] = fault.kind  # type: ignore[index]
                case FileReturned(tag, suspect):
                    self.returned.append(tag)  # type: ignore[arg-type]
                    if suspect:
                        self.suspect.add(tag)  # type: ignore[arg-type]
                case Flush(host, port) if self.ports:
                    self.ports.close((host, port))
                case Flush(host, port):
                    assert self.pair.waits_at((host, port))
                    door = self.destination.doors[port - 4 * 256 - 1]
                    if not door.opened:
                        door.closed = True
                case FileProgress():
                    pass

    def run(self, choose: Callable[[int], int], limit: int = 20_000) -> None:
        """Make moves until none is left."""
        for _ in range(limit):
            moves = self.moves()
            while moves:
                if moves.pop(choose(len(moves)))():
                    break
            else:
                return
        raise AssertionError("the dialogue never ends")


def contents_are_right(world: World, names: list[bytes]) -> None:
    for path, content in world.destination.disk.items():
        assert content == b"content of /src/" + path.removeprefix(b"/dst/"), (path, content)
    for name in names:
        assert b"/dst/" + name in world.destination.disk


NAMES = [b"f%d" % index for index in range(12)]
names = st.sets(st.sampled_from(NAMES), max_size=12)


ways = st.sampled_from(["MODE E", "MODE S", "by a relay"])


@settings(max_examples=400, deadline=None)
@given(names, names, ways, st.booleans(), st.data())
def test_whatever_fails_no_file_gets_anothers_content(
    missing: set[bytes], unwritable: set[bytes], way: str, temporary: bool, data: st.DataObject
) -> None:
    stream, relayed = way == "MODE S", way == "by a relay"
    gone, locked = {b"/src/" + n for n in missing}, {b"/dst/" + n for n in unwritable}
    world = World(gone, locked, stream_mode=stream, relayed=relayed)
    rounds = 0
    waiting = deque(NAMES)
    choose = lambda count: data.draw(st.integers(0, count - 1)) if count > 1 else 0  # noqa: E731
    while waiting and rounds < 50:
        rounds += 1
        for name in waiting:
            world.feed(name)
        waiting.clear()
        world.run(choose)
        assert world.pair.idle
        waiting += world.returned
        world.returned.clear()
    assert sorted(world.settled) == sorted(set(NAMES) - missing - unwritable)
    assert set(world.refused) == missing | unwritable
    assert all(kind is Kind.FILE_NOT_FOUND for name, kind in world.refused.items() if name not in unwritable)
    assert all(kind is Kind.PERMISSION_DENIED for name, kind in world.refused.items() if name not in missing)
    contents_are_right(world, world.settled)


@settings(max_examples=200, deadline=None)
@given(names, st.integers(0, 120), st.sampled_from([Side.SOURCE, Side.DESTINATION]), st.data())
def test_a_connection_lost_at_any_step_settles_only_what_is_certain(
    missing: set[bytes], when: int, side: Side, data: st.DataObject
) -> None:
    world = World({b"/src/" + n for n in missing}, set())
    for name in NAMES:
        world.feed(name)
    for _ in range(when):
        moves = world.moves()
        if not moves:
            break
        moves[data.draw(st.integers(0, len(moves) - 1))]()
    for event in world.servers[side].channel.receive_eof():
        world.pair.handle(side, event)
    world.collect()
    assert world.pair.state is PairState.LOST
    outcomes = [*world.settled, *world.refused, *world.returned]
    assert sorted(outcomes) == sorted(NAMES), "each file comes back exactly once"
    for name in world.settled:
        assert world.destination.disk[b"/dst/" + name] == b"content of /src/" + name
    world.feed(b"late")
    world.collect()
    assert world.returned[-1] == b"late"


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize(("stream", "marks", "known"), [(True, False, False), (True, True, True), (False, True, True)])
def test_a_server_without_markers_says_nothing_of_the_size(
    stream: bool, marks: bool, known: bool, temporary: bool
) -> None:
    """0 octets would be believed of a file that was empty in the listing, and has grown since."""
    world = World(set(), set(), stream_mode=stream)
    world.destination.marks = marks
    world.feed(b"f", **({"rename_to": b"/dst/t"} if temporary else {}))
    world.run(lambda _: 0)
    assert world.octets == [len(b"content of /src/f") if known else None]


def test_a_renamed_file_is_settled_only_when_it_has_its_name() -> None:
    world = World(set(), set())
    world.pair.send(Transfer(b"f1", b"/src/f1", b"/dst/.tmp", 10, rename_to=b"/dst/f1"))
    world.run(lambda _: 0)
    assert world.settled == [b"f1"]
    assert set(world.destination.disk) == {b"/dst/f1"}


@pytest.mark.parametrize("name", [b"f1", b"a name  of words", b"4 /dst/x"])
def test_a_server_of_ours_gives_the_name_in_one_command(name: bytes) -> None:
    world = World(set(), set(), replaces=True)
    world.pair.send(Transfer(b"f1", b"/src/f1", b"/dst/.tmp of " + name, 10, rename_to=b"/dst/" + name))
    world.moves()
    world.run(lambda _: 0)
    assert world.settled == [b"f1"]
    assert world.destination.disk == {b"/dst/" + name: b"content of /src/f1"}


def test_two_paths_too_long_for_one_line_take_two_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(set(), set(), replaces=True)
    monkeypatch.delattr(Destination, "replace")
    long = b"/dst/" + b"d/" * 2040
    world.pair.send(Transfer(b"f1", b"/src/f1", long + b".tmp-%d" % 1, 10, rename_to=long + b"f1"))
    world.run(lambda _: 0)
    assert set(world.destination.disk) == {long + b"f1"}


@pytest.mark.parametrize("replaces", [False, True])
def test_a_refused_rename_refuses_the_file(replaces: bool) -> None:
    world = World(set(), set(), replaces=replaces)
    world.destination.rnto = lambda path: [b"553 Permission denied\r\n"]  # type: ignore[method-assign]
    world.pair.send(Transfer(b"f1", b"/src/f1", b"/dst/.tmp", 10, rename_to=b"/dst/f1"))
    world.run(lambda _: 0)
    assert world.refused == {b"f1": Kind.PERMISSION_DENIED}


@pytest.mark.parametrize(
    ("head", "size", "part", "received", "trusted"),
    [
        (0, SYNCED_FROM, None, SYNCED_FROM, SYNCED_FROM), (0, SYNCED_FROM - 1, None, SYNCED_FROM - 1, 0),
        (0, SYNCED_FROM - 1, None, 1000, 1000), (0, 1000, (0, 1000), 1000, 1000), (0, 0, None, 0, 0),
        (HEAD, 2 * HEAD, None, 2 * HEAD, HEAD),
    ],
)  # fmt: skip
def test_only_ranges_that_are_surely_on_the_disk_are_trusted(
    head: int, size: int, part: tuple[int, int] | None, received: int, trusted: int
) -> None:
    """A server of ours (no head) does not sync a small file before the marker that completes it."""
    slot = Slot(Transfer(None, b"/s", b"/d", size, part=part), head)
    if received:
        assert slot.add_marker(Reply(111, (b"Range Marker 0-%d" % received,)))
    assert slot.on_disk().total == trusted


def test_a_name_that_no_wire_may_carry_is_refused_alone() -> None:
    world = World(set(), set())
    for name in (b"a", b"b\r\nDELE /dst/a", b"c"):
        world.feed(name)
    world.run(lambda _: 0)
    assert world.settled == [b"a", b"c"]
    assert world.refused == {b"b\r\nDELE /dst/a": Kind.INVALID_PATH_NAME}


def test_ranges_go_to_both_sides_before_the_file() -> None:
    world = World(set(), set())
    world.feed(b"big", ranges=RangeSet([(0, 100), (200, 300)]))
    world.moves()
    assert b"REST 0-100,200-300" in world.destination.queue
    world.run(lambda _: 0)
    assert world.settled == [b"big"]


def test_streams_chosen_after_the_source_knows_the_address_are_sent_with_it_again() -> None:
    destination, source = ControlChannel(), ControlChannel()
    for channel in (destination, source):
        list(channel.receive(b"220 hello\r\n"))
    pair = ThirdPartyPair(source, destination, parallelism=None)
    for event in destination.receive(b"200 ok\r\n" * 4 + b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n"):
        pair.handle(Side.DESTINATION, event)
    assert source.data_to_send().endswith(b"PORT 10,0,0,1,4,1\r\n")
    pair.use_streams(8)
    assert source.data_to_send() == b"OPTS RETR Parallelism=8,8,8;\r\nPORT 10,0,0,1,4,1\r\n"


def test_an_address_that_the_gate_refuses_is_never_sent_to_the_source() -> None:
    destination, source = ControlChannel(), ControlChannel()
    for channel in (destination, source):
        list(channel.receive(b"220 hello\r\n"))
    pair = ThirdPartyPair(source, destination, parallelism=1, accept_address=lambda address: address[0] != "10.0.0.1")
    pair.send(Transfer(b"f", b"/f", b"/f"))
    for event in destination.receive(b"200 ok\r\n" * 4 + b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n"):
        pair.handle(Side.DESTINATION, event)
    assert pair.state is PairState.LOST
    assert b"PORT" not in source.data_to_send()
    assert [type(event) for event in pair.take()] == [FileRefused]


def test_the_driver_may_give_up() -> None:
    world = World(set(), set())
    world.feed(b"a")
    world.pair.lose(make_fault(Kind.TIMEOUT, "no word"))
    world.collect()
    assert world.refused == {b"a": Kind.TIMEOUT}


def test_the_head_of_a_file_that_was_broken_off_is_not_trusted() -> None:
    destination, source = ControlChannel(), ControlChannel()
    for channel in (destination, source):
        list(channel.receive(b"220 hello\r\n"))
    pair = ThirdPartyPair(source, destination, parallelism=1)
    pair.send(Transfer(b"big", b"/f", b"/f", 20 * 2**20))
    answers = b"200 ok\r\n" * 4 + b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n150 go\r\n"
    for event in destination.receive(answers):
        pair.handle(Side.DESTINATION, event)
    for event in source.receive(b"200 ok\r\n" * 4 + b"150 go\r\n"):
        pair.handle(Side.SOURCE, event)
    for event in destination.receive(b"111 Range Marker 0-10485760\r\n"):
        pair.handle(Side.DESTINATION, event)
    pair.lose(make_fault(Kind.CONNECTION_RESET, "gone"))
    told, refused = pair.take()
    trusted = RangeSet([(HEAD, 10 * 2**20)])
    assert isinstance(told, FileProgress)
    assert told.ranges == trusted
    assert isinstance(refused, FileRefused)
    assert refused.trusted == trusted


class OpenFile:
    """A pair with one file under way: 1 TB, of which these ranges were on the disk before."""

    def __init__(self, ranges: RangeSet | None = None) -> None:
        self.destination, self.source = ControlChannel(), ControlChannel()
        for channel in (self.destination, self.source):
            list(channel.receive(b"220 hello\r\n"))
        self.pair = ThirdPartyPair(self.source, self.destination, parallelism=1)
        self.pair.send(Transfer(b"big", b"/f", b"/f", 10**12, ranges=ranges))
        rest = b"350 go on\r\n" if ranges else b""
        listens = b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n"
        self.hear(Side.DESTINATION, b"200 ok\r\n" * 4 + listens + rest + b"150 go\r\n")
        self.hear(Side.SOURCE, b"200 ok\r\n" * 4 + rest + b"150 go\r\n")

    def hear(self, side: Side, octets: bytes) -> None:
        channel = self.source if side is Side.SOURCE else self.destination
        for event in channel.receive(octets):
            self.pair.handle(side, event)

    def mark(self, ranges: RangeSet) -> None:
        self.hear(Side.DESTINATION, b"111 Range Marker %b\r\n" % ranges.format().encode())

    def end(self) -> FileRefused:
        self.pair.lose(make_fault(Kind.CONNECTION_RESET, "gone"))
        refused = self.pair.take()[-1]
        assert isinstance(refused, FileRefused)
        return refused


def disjoint(count: int, first: int = 0) -> RangeSet:
    return RangeSet((HEAD + 2 * n, HEAD + 2 * n + 1) for n in range(first, first + count))


@pytest.mark.parametrize("of_one_marker", [1, 100, MAX_RANGES + 1, 2500])
def test_a_receiver_that_reports_ever_more_ranges_fails_its_file(of_one_marker: int) -> None:
    file = OpenFile()
    for first in range(0, 10_000, of_one_marker):
        file.mark(disjoint(of_one_marker, first))
    # No event has more ranges than are kept, and none comes after the fault.
    told = [event for event in file.pair.take() if isinstance(event, FileProgress)]
    assert max((len(event.ranges) for event in told), default=0) == MAX_RANGES // of_one_marker * of_one_marker
    refused = file.end()
    assert (refused.fault.kind, refused.fault.side) == (Kind.ENDPOINT_ERROR, Side.DESTINATION)
    assert "ranges" in refused.fault.raw
    # The next attempt begins anew.
    assert refused.trusted is None


def test_ranges_of_earlier_attempts_count_too() -> None:
    file = OpenFile(disjoint(MAX_RANGES - 1))
    file.mark(disjoint(1, 5000))
    file.mark(disjoint(1, 5001))
    assert len([event for event in file.pair.take() if isinstance(event, FileProgress)]) == 1
    assert file.end().trusted is None


def test_the_longest_ranges_fit_into_a_command() -> None:
    """The offsets of a file of the largest size have 19 digits."""
    start = 10**18
    file = OpenFile(RangeSet((start + 2 * n, start + 2 * n + 1) for n in range(MAX_RANGES)))
    assert file.end().trusted is not None


def test_ranges_that_close_gaps_are_taken_however_many_there_were() -> None:
    file = OpenFile(disjoint(MAX_RANGES))
    file.mark(RangeSet([(0, HEAD + 2 * MAX_RANGES)]))
    assert file.end().trusted == RangeSet([(HEAD, HEAD + 2 * MAX_RANGES)])


def test_a_receiver_that_sends_markers_without_end_fails_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_MARKERS", 1000)
    file = OpenFile()
    for number in range(1, 1002):
        assert len([event for event in file.pair.take() if isinstance(event, FileProgress)]) == (number > 1)
        file.mark(RangeSet([(0, HEAD + number)]))
    assert file.pair.take() == []
    assert file.end().fault.kind is Kind.ENDPOINT_ERROR
