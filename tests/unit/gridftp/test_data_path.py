"""Addresses on which the two servers of a lane agree, and their use by a pair if there are several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.commands import CommandError, format_host_port
from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Side
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.third_party.data_path import DataAddress, DataPath, refusal
from endpoints.gridftp.third_party.pair import ThirdPartyPair
from endpoints.gridftp.third_party.pair_states import PairState
from endpoints.gridftp.third_party.slots import FileSettled, Transfer

ONE = Reply(229, (b"Entering Striped Passive Mode.", b" 127,0,0,1,4,1", b"End"))
TWO = Reply(229, (b"Entering Striped Passive Mode.", b" 127,0,0,1,4,1", b" 127,0,0,2,4,2", b"End"))


@pytest.mark.parametrize(
    ("path", "listen", "answer", "connect"),
    [
        (DataPath(), "PASV", Reply(227, (b"Passive (127,0,0,1,4,1)",)), ("PORT", b"127,0,0,1,4,1")),
        (DataPath("::1"), "EPSV", Reply(229, (b"Entering (|||1025|)",)), ("EPRT", b"|2|::1|1025|")),
        (DataPath("::1", striped=True), "EPSV", Reply(229, (b"Entering (|||1025|)",)), ("EPRT", b"|2|::1|1025|")),
        (DataPath(striped=True), "SPAS", ONE, ("PORT", b"127,0,0,1,4,1")),
        (DataPath(striped=True), "SPAS", TWO, ("SPOR", b"127,0,0,1,4,1 127,0,0,2,4,2")),
        (DataPath(striped=True, striped_source=True), "SPAS", ONE, ("SPOR", b"127,0,0,1,4,1")),
        (DataPath(striped_source=True), "PASV", Reply(227, (b"(127,0,0,1,4,1)",)), ("PORT", b"127,0,0,1,4,1")),
        (DataPath(token="t1"), "SITE", Reply(200, (b"Data goes through the relay.",)), ("SITE", b"WAYBILL DATA t1")),
    ],
)
def test_each_way_has_its_two_commands(path: DataPath, listen: str, answer: Reply, connect: tuple[str, bytes]) -> None:
    assert path.listen[0] == listen
    assert path.connect(path.addresses(answer)) == connect


@pytest.mark.parametrize(
    "answer",
    [
        Reply(500, (b"no",)),
        Reply(229, (b"nothing",)),
        Reply(229, (b"a", b"b", b"c")),
        Reply(229, (b"a", *[b" 127,0,0,1,4,1"] * 300, b"c")),
        Reply(229, (b"a", b" 127,0,0,1,4,1", b" 999,0,0,1,4,1", b"c")),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: Reply) -> None:
    with pytest.raises(CommandError):
        DataPath(striped=True).addresses(answer)


class Dialogue:
    """A pair whose servers say what the test makes them say."""

    def __init__(self, refuse: str = "") -> None:
        self.channels = {Side.SOURCE: ControlChannel(), Side.DESTINATION: ControlChannel()}
        for channel in self.channels.values():
            list(channel.receive(b"220 hello\r\n"))
        self.pair = ThirdPartyPair(
            self.channels[Side.SOURCE],
            self.channels[Side.DESTINATION],
            parallelism=2,
            path=DataPath("127.0.0.1", striped=True),
            accept_address=lambda address: address[0] != refuse,
        )

    def sent(self, side: Side) -> list[bytes]:
        return self.channels[side].data_to_send().split(b"\r\n")[:-1]

    def says(self, side: Side, octets: bytes) -> None:
        for event in self.channels[side].receive(octets):
            self.pair.handle(side, event)


STRIPES = b"229-Striped\r\n 127,0,0,1,4,1\r\n 127,0,0,2,4,2\r\n229 End\r\n"


def test_a_lane_waits_for_nothing_but_the_destinations_addresses() -> None:
    world = Dialogue()
    world.pair.send(Transfer("a", b"/a", b"/b"))
    assert world.sent(Side.DESTINATION)[-3:] == [b"TREV RESTART 1", b"SPAS", b"STOR /b"]
    assert world.sent(Side.SOURCE) == [b"TYPE I", b"MODE E", b"OPTS RETR Parallelism=2,2,2;"]
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + STRIPES)
    assert world.sent(Side.SOURCE) == [b"SPOR 127,0,0,1,4,1 127,0,0,2,4,2", b"RETR /a"]
    world.says(Side.SOURCE, b"200 ok\r\n" * 4 + b"150 go\r\n226 done\r\n")
    world.says(Side.DESTINATION, b"150 go\r\n111 Range Marker 0-5\r\n226 done\r\n")
    assert world.pair.take()[-1] == FileSettled("a", None)


def test_one_data_node_that_the_gate_refuses_spoils_them_all() -> None:
    world = Dialogue(refuse="127.0.0.2")
    world.pair.send(Transfer("a", b"/a", b"/b"))
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + STRIPES)
    assert world.pair.state is PairState.LOST
    assert not [line for line in world.sent(Side.SOURCE) if line.startswith((b"SPOR", b"PORT", b"RETR"))]


def test_what_is_continued_waits_until_it_is_alone_and_goes_to_one_node() -> None:
    world = Dialogue()
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + STRIPES)
    world.pair.send(Transfer("a", b"/a", b"/a"))
    world.pair.send(Transfer("b", b"/b", b"/b", ranges=RangeSet([(0, 7)])))
    world.pair.send(Transfer("c", b"/c", b"/c"))
    assert world.sent(Side.DESTINATION)[-2:] == [b"SPAS", b"STOR /a"]
    world.sent(Side.SOURCE)
    world.says(Side.SOURCE, b"200 ok\r\n" * 4 + b"150 go\r\n226 done\r\n")
    world.says(Side.DESTINATION, b"150 go\r\n226 done\r\n")
    assert world.sent(Side.DESTINATION) == [b"PASV", b"REST 0-7", b"STOR /b", b"STOR /c"]
    assert world.sent(Side.SOURCE) == []
    world.says(Side.DESTINATION, b"227 (127,0,0,1,4,1)\r\n")
    assert world.sent(Side.SOURCE) == [b"PORT 127,0,0,1,4,1", b"REST 0-7", b"RETR /b", b"RETR /c"]


def test_what_is_continued_waits_for_nobody_once_it_is_known_that_there_is_one_node() -> None:
    world = Dialogue()
    world.pair.send(Transfer("a", b"/a", b"/a"))
    world.pair.send(Transfer("b", b"/b", b"/b", ranges=RangeSet([(0, 7)])))
    assert world.sent(Side.DESTINATION)[-2:] == [b"SPAS", b"STOR /a"]
    world.sent(Side.SOURCE)
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + b"229-Striped\r\n 127,0,0,1,4,1\r\n229 End\r\n")
    assert world.sent(Side.DESTINATION) == [b"REST 0-7", b"STOR /b"]
    assert world.sent(Side.SOURCE) == [b"PORT 127,0,0,1,4,1", b"RETR /a", b"REST 0-7", b"RETR /b"]


def test_what_is_continued_first_does_not_wait_for_the_addresses_of_all() -> None:
    """The first answer is passed over: the destination was asked again since."""
    world = Dialogue()
    world.pair.send(Transfer("b", b"/b", b"/b", ranges=RangeSet([(0, 7)])))
    assert world.sent(Side.DESTINATION)[-4:] == [b"SPAS", b"PASV", b"REST 0-7", b"STOR /b"]
    world.sent(Side.SOURCE)
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + STRIPES)
    assert world.sent(Side.SOURCE) == []
    world.says(Side.DESTINATION, b"227 (127,0,0,1,4,1)\r\n")
    assert world.sent(Side.SOURCE) == [b"PORT 127,0,0,1,4,1", b"REST 0-7", b"RETR /b"]


def test_an_address_that_comes_with_the_transfer_is_passed_over() -> None:
    """The toolkit's delayed form, "127 Entering Passive Mode", which nobody has asked for."""
    world = Dialogue()
    world.pair.send(Transfer("a", b"/a", b"/b"))
    world.says(Side.DESTINATION, b"200 ok\r\n" * 4 + STRIPES + b"127 Entering Passive Mode (8,8,8,8,0,25)\r\n")
    world.says(Side.DESTINATION, b"150 go\r\n127 Entering Passive Mode (127,0,0,1,0,22)\r\n")
    told = world.sent(Side.SOURCE)
    assert told[-2:] == [b"SPOR 127,0,0,1,4,1 127,0,0,2,4,2", b"RETR /a"]
    assert world.pair.state is PairState.CONNECTED


LOW = tuple(("127.0.0.1", port) for port in (0, 1, 22, 25, 1023))


@pytest.mark.parametrize(
    ("address", "peer"),
    [*((address, "127.0.0.1") for address in LOW), (("127.0.0.2", 2000), "127.0.0.1"), (("8.8.8.8", 8080), "::1"),
     (("127.0.0.1", 2000), ""), (("::1", 22), "::1")],
)  # fmt: skip
def test_data_goes_to_no_other_host_and_to_no_well_known_port(address: DataAddress, peer: str) -> None:
    why = refusal((address,), peer, lambda _: False)
    assert str(address[1]) in why or address[0] in why


def test_data_goes_to_the_server_itself_and_to_hosts_that_are_registered() -> None:
    registered = {("192.0.2.7", 5000)}
    assert refusal((("192.0.2.1", 1024), ("192.0.2.7", 5000)), "192.0.2.1", registered.__contains__) == ""
    assert "192.0.2.7" in refusal((("192.0.2.7", 5001),), "192.0.2.1", registered.__contains__)
    assert "port 80" in refusal((("192.0.2.1", 1024), ("192.0.2.7", 80)), "192.0.2.1", lambda _: True)


def _answer(path: DataPath, line: bytes) -> Reply:
    return Reply(229, (b"Striped", line, b"End")) if path.striped else Reply(227, (line,))


@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.integers(0, 999), min_size=5, max_size=8).map(lambda n: b"(%s)" % b",".join(b"%d" % i for i in n)),
        st.tuples(st.sampled_from(["127.0.0.1", "8.8.8.8", "10.0.0.1"]), st.integers(0, 65535)).map(
            lambda address: b"Entering Passive Mode (%s)" % format_host_port(*address)
        ),
        st.integers(0, 99999).map(lambda port: b"(|||%d|)" % port),
    ),
    st.sampled_from([DataPath("127.0.0.1"), DataPath("127.0.0.1", striped=True), DataPath("2001:db8::1")]),
)
def test_whatever_a_server_answers_the_source_is_sent_to_that_server_or_nowhere(line: bytes, path: DataPath) -> None:
    try:
        addresses = path.addresses(_answer(path, line))
    except CommandError:
        return
    if refusal(addresses, path.peer, lambda _: False):
        return
    verb, argument = path.connect(addresses)
    for host, port in addresses:
        assert host == path.peer
        assert 1024 <= port <= 65535
        spelled = b"|2|%s|%d|" % (host.encode(), port) if verb == "EPRT" else format_host_port(host, port)
        assert argument == spelled


@pytest.mark.parametrize(
    "line",
    [b"(8,8,8,8,0,25) (127,0,0,1,4,1)", b"127,0,0,1,4,1,8,8,8,8,0,25", b"1127,0,0,1,4,1", b"127,0,0,1,4,1000"],
)
def test_an_answer_with_more_than_one_address_has_none(line: bytes) -> None:
    with pytest.raises(CommandError):
        DataPath("127.0.0.1").addresses(Reply(227, (line,)))
