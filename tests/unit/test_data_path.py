"""How the two servers of a lane agree on addresses, and what a pair makes of several of them."""

from __future__ import annotations

import pytest

from endpoints.gridftp.commands import CommandError
from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.data_path import DataPath
from endpoints.gridftp.faults import Side
from endpoints.gridftp.pair import FileSettled, State, ThirdPartyPair, Transfer
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.replies import Reply

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
    ],
)
def test_each_way_has_its_two_commands(path: DataPath, listen: str, answer: Reply, connect: tuple[str, bytes]) -> None:
    assert path.listen == listen
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
            path=DataPath(striped=True),
            accept_address=lambda host: host != refuse,
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
    assert world.pair.state is State.LOST
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
