"""A failing file never shifts its successors: between two servers of ours, and with the toolkit's on the other side.

When the toolkit's server is the one that fails, nothing that its partner does can help: that is the client's to
notice, and `endpoints.gridftp.third_party.pair` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer, ServerLimits
from tests.gridftp.ftp_dialogue import Dialogue, ThirdParty, connect
from tests.gridftp.toolkit import ToolkitServer

COUNT = 7
LIMITS = ServerLimits(connect_seconds=5, stall_seconds=5)


@dataclass
class Side:
    """A server, its folder, and how the folder is called over the wire."""

    folder: Path
    port: int
    prefix: str


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def own(folder: Path, stack: ExitStack) -> Side:
    server = stack.enter_context(GridFtpServer(folder, limits=LIMITS))
    return Side(folder, server.port, "")


def toolkit(folder: Path, start: Callable[..., ToolkitServer]) -> Side:
    return Side(folder, start(folder).port, str(folder))


def content(number: int, size: int) -> bytes:
    return (b"file %d " % number * (size // 7 + 1))[:size]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("source", "destination"):
        (tmp_path / name).mkdir()
    return tmp_path / "source", tmp_path / "destination"


def fill(folder: Path, size: int) -> None:
    for number in range(COUNT):
        (folder / str(number)).write_bytes(content(number, size))


def check(source: Side, destination: Side, failing: int, size: int, parallelism: int) -> None:
    """Whatever the destination says is there, is what the source has under that name; and all can be sent again."""
    with Dialogue(source.port) as at_source, Dialogue(destination.port) as at_destination:
        pair = ThirdParty(at_source, at_destination, parallelism)
        pairs = [(f"{source.prefix}/{number}", f"{destination.prefix}/{number}") for number in range(COUNT)]
        outcomes = pair.move(pairs)
        for number, (sent, received) in enumerate(outcomes):
            if received.code == 226:
                assert (destination.folder / str(number)).read_bytes() == content(number, size)
            if number < failing:
                assert received.code == 226
                assert sent.code == 226
        assert outcomes[failing][0].reply.is_error or outcomes[failing][1].reply.is_error
        pair.connect()
        rest = [pair for number, pair in enumerate(pairs) if number > failing]
        for sent, received in pair.move(rest):
            assert (sent.code, received.code) == (226, 226)
    for number in range(COUNT):
        if number != failing:
            assert (destination.folder / str(number)).read_bytes() == content(number, size)


cases = pytest.mark.parametrize(
    ("failing", "size", "parallelism"),
    [(0, 1000, 1), (3, 1000, 1), (6, 1000, 1), (0, 1000, 4), (3, 1000, 4), (3, 0, 2), (3, 700_000, 1), (3, 700_000, 3)],
)


@cases
def test_a_missing_source_between_servers_of_ours(folders, stack, failing, size, parallelism):
    source, destination = own(folders[0], stack), own(folders[1], stack)
    fill(source.folder, size)
    (source.folder / str(failing)).unlink()
    check(source, destination, failing, size, parallelism)
    assert not any((destination.folder / str(failing)).glob("*"))


@cases
def test_a_refused_destination_between_servers_of_ours(folders, stack, failing, size, parallelism):
    source, destination = own(folders[0], stack), own(folders[1], stack)
    fill(source.folder, size)
    (destination.folder / str(failing)).mkdir()
    check(source, destination, failing, size, parallelism)
    assert not os.listdir(destination.folder / str(failing))


@pytest.mark.toolkit
@cases
def test_a_missing_source_of_ours_towards_the_toolkit(
    folders, stack, toolkit_server_factory, failing, size, parallelism
):
    source, destination = own(folders[0], stack), toolkit(folders[1], toolkit_server_factory)
    fill(source.folder, size)
    (source.folder / str(failing)).unlink()
    check(source, destination, failing, size, parallelism)


@pytest.mark.toolkit
@cases
def test_a_refused_destination_of_ours_fed_by_the_toolkit(
    folders, stack, toolkit_server_factory, failing, size, parallelism
):
    fill(folders[0], size)
    source, destination = toolkit(folders[0], toolkit_server_factory), own(folders[1], stack)
    (destination.folder / str(failing)).mkdir()
    check(source, destination, failing, size, parallelism)


@pytest.mark.parametrize("command", ["STOR /x\x01y", "STOR", "ESTO A x /f", "ESTO B 0 /f", "APPE /folder"])
def test_every_refusal_of_a_transfer_command_closes_the_channel(folders, stack, command):
    """Even one that is refused for its form: its partner is on its way all the same."""
    server = own(folders[1], stack)
    (server.folder / "folder").mkdir()
    with Dialogue(server.port) as dialogue:
        dialogue.demand("MODE E")
        with connect(dialogue.passive()) as sender:
            outcomes = dialogue.ask_all(command, "STOR /next", "RETR /next")
            assert [outcome.reply.is_error for outcome in outcomes] == [True, True, True]
            assert [outcome.code for outcome in outcomes[1:]] == [425, 425]
            with suppress(ConnectionResetError):
                assert sender.recv(1) == b""
        assert not (server.folder / "next").exists()
        dialogue.passive()


def test_a_refused_restart_lets_its_transfer_fail(folders, stack):
    """Were the file sent whole to one side and in part to the other, there would be a hole in it."""
    source = own(folders[0], stack)
    fill(source.folder, 10)
    with Dialogue(source.port) as dialogue:
        dialogue.demand("MODE E")
        dialogue.passive()
        refused, moved, later = dialogue.ask_all("REST 5-3", "STOR /0", "STOR /1")
        assert refused.code == 501
        assert moved.code == 501
        assert later.code == 425
    assert (source.folder / "0").read_bytes() == content(0, 10)


def test_a_sender_that_never_connected_frees_the_receiver(folders, stack):
    source, destination = own(folders[0], stack), own(folders[1], stack)
    with Dialogue(source.port) as at_source, Dialogue(destination.port) as at_destination:
        pair = ThirdParty(at_source, at_destination)
        [(sent, received)] = pair.move([("/nothing", "/x")])
        assert sent.code == 550
        assert "No such file or directory" in sent.text
        assert received.code == 426
        assert "end-of-file was reached" in received.text
