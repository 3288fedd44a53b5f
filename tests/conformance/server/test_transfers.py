"""Data through our server: both modes, both directions, and everything that can go wrong on the way."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from endpoints.gridftp.faults import Kind, classify
from endpoints.gridftp.markers import SYNCED_FROM, PerfMarker, parse_marker
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.server import ServerLimits
from endpoints.gridftp.server.data import disk_sync
from endpoints.gridftp.server.data.mode_e import EOD, EOF, SUSPECT, Header, end_of_data
from endpoints.gridftp.third_party.dcsc_keys import make_throw_away
from identity.gsi.proxies import new_key
from tests.gridftp.ftp_dialogue import (
    Dialogue,
    ThirdParty,
    accept,
    blocks,
    connect,
    listen,
    read_all,
    read_blocks,
    reset,
)
from tests.waiting import eventually

#: Larger than any one read, and no multiple of anything.
LARGE = 5 * 2**20 + 12345


@pytest.fixture
def dialogue(serve):
    with Dialogue(serve(limits=ServerLimits(stall_seconds=10, connect_seconds=10)).port) as dialogue:
        dialogue.demand("TYPE I")
        yield dialogue


@pytest.fixture
def mode_e(dialogue):
    dialogue.demand("MODE E")
    return dialogue


@contextmanager
def sender(dialogue: Dialogue, streams: int = 1) -> Iterator[list[socket.socket]]:
    """Connections to a receiver in MODE E."""
    address = dialogue.passive()
    sockets = [connect(address) for _ in range(streams)]
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


# ---- MODE S


@pytest.mark.parametrize("size", [0, 1, 65536, LARGE])
@pytest.mark.parametrize("active", [False, True], ids=["PASV", "PORT"])
def test_stream_mode_carries_a_file_both_ways(dialogue, folder, size, active):
    content = os.urandom(size)
    with data_of(dialogue, "STOR /f", active) as data:
        data.sendall(content)
    assert dialogue.outcome().code == 226
    assert (folder / "f").read_bytes() == content
    with data_of(dialogue, "RETR /f", active) as data:
        assert read_all(data) == content
    assert dialogue.outcome().code == 226


@contextmanager
def data_of(dialogue: Dialogue, command: str, active: bool = False) -> Iterator[socket.socket]:
    """The data connection of one MODE S command; its outcome is left to be read."""
    if active:
        with listen() as listener:
            dialogue.port(listener.getsockname())
            dialogue.send(command)
            with accept(listener) as data:
                yield data
    else:
        with connect(dialogue.passive()) as data:
            dialogue.send(command)
            yield data


def test_stream_mode_needs_a_new_channel_for_each_file(dialogue, folder):
    (folder / "f").write_bytes(b"x")
    with data_of(dialogue, "RETR /f") as data:
        assert read_all(data) == b"x"
    assert dialogue.outcome().code == 226
    assert dialogue.ask("RETR /f").code == 425


def test_stream_mode_says_nothing_between_150_and_226(dialogue, folder):
    """RFC 959 has no replies there; plain FTP clients know no markers, and do not ask for them by TREV."""
    with data_of(dialogue, "STOR /f") as data:
        data.sendall(b"x")
        time.sleep(5.5)  # markers come every 5 s where a client wants them
    assert [reply.code for reply in dialogue.outcome().preliminary] == [150]


def test_stream_mode_has_markers_for_a_client_that_asks_by_trev(dialogue, folder):
    dialogue.demand("TREV PERF 1", "TREV RESTART 1")
    with data_of(dialogue, "STOR /f") as data:
        data.sendall(b"x")
        codes: set[int] = set()
        while not codes >= {150, 111, 112}:
            codes.add(dialogue.next_reply().code)
    outcome = dialogue.outcome()
    assert outcome.code == 226
    assert codes | {reply.code for reply in outcome.preliminary} == {150, 111, 112}


def test_a_restarted_stream_goes_on_where_it_was(dialogue, folder):
    (folder / "f").write_bytes(b"0123456789")
    dialogue.demand("REST 4")
    with data_of(dialogue, "RETR /f") as data:
        assert read_all(data) == b"456789"
    assert dialogue.outcome().code == 226
    dialogue.demand("REST 4")
    with data_of(dialogue, "STOR /f") as data:
        data.sendall(b"abc")
    assert dialogue.outcome().code == 226
    assert (folder / "f").read_bytes() == b"0123abc"
    # It counts for one transfer only.
    with data_of(dialogue, "STOR /f") as data:
        data.sendall(b"new")
    assert dialogue.outcome().code == 226
    assert (folder / "f").read_bytes() == b"new"


def test_a_stream_cannot_leave_out_the_middle(dialogue, folder):
    (folder / "f").write_bytes(b"0123456789")
    dialogue.demand("REST 2-4")
    dialogue.passive()
    assert dialogue.ask("RETR /f").code == 501


def test_append_goes_behind_what_is_there(dialogue, folder):
    (folder / "f").write_bytes(b"0123")
    for active in (False, True):
        with data_of(dialogue, "APPE /f", active) as data:
            data.sendall(b"45")
        assert dialogue.outcome().code == 226
    assert (folder / "f").read_bytes() == b"01234545"


def test_a_stream_that_breaks_is_no_whole_file(dialogue, folder):
    with data_of(dialogue, "STOR /f") as data:
        data.sendall(b"half")
        eventually(lambda: size_of(folder / "f") == 4)
        reset(data)
    outcome = dialogue.outcome()
    assert outcome.code == 426
    assert classify(outcome.reply).kind is Kind.CONNECTION_RESET


def test_a_sender_in_stream_mode_that_is_aborted_resets(dialogue, folder):
    """Its partner must not take what came so far for the whole file."""
    with open(folder / "f", "wb") as file:
        file.truncate(2**30)
    with data_of(dialogue, "RETR /f") as data:
        assert data.recv(1000)
        dialogue.send("ABOR")
        assert [dialogue.outcome().code, dialogue.outcome().code] == [426, 226]
        with pytest.raises(ConnectionResetError):
            read_all(data)


# ---- MODE E


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, LARGE])
@pytest.mark.parametrize("streams", [1, 3])
def test_blocks_carry_a_file_from_us(mode_e, folder, size, streams):
    content = os.urandom(size)
    (folder / "f").write_bytes(content)
    mode_e.demand(f"OPTS RETR Parallelism={streams},{streams},{streams};")
    with listen() as listener:
        mode_e.port(listener.getsockname())
        mode_e.send("RETR /f")
        sockets = [accept(listener) for _ in range(streams)]
        parts = [read_blocks(sock) for sock in sockets]
        received = bytearray(size)
        for found, _ in parts:
            for offset, data in found.items():
                received[offset : offset + len(data)] = data
        assert received == content
        assert sum(len(data) for found, _ in parts for data in found.values()) == size
        assert [header.offset for _, header in parts if header.descriptor & EOF] == [streams]
        assert mode_e.outcome().code == 226
        for sock in sockets:
            sock.close()


def test_blocks_may_come_in_any_order_on_any_stream_in_any_cut(mode_e, folder):
    content = os.urandom(300_000)
    pieces = [(offset, content[offset : offset + 7000]) for offset in range(0, len(content), 7000)]
    with sender(mode_e, 3) as sockets:
        mode_e.send("STOR /f")
        for number, sock in enumerate(sockets):
            stream = blocks(reversed(pieces[number::3]), 3 if number == 1 else None)
            for at in range(0, len(stream), 9999):
                sock.sendall(stream[at : at + 9999])
        outcome = mode_e.outcome()
    assert outcome.code == 226
    assert (folder / "f").read_bytes() == content
    assert outcome.ranges == RangeSet([(0, len(content))])


def test_a_block_may_be_the_last_one_and_carry_data(mode_e, folder):
    """Other senders set EOD on the header of their last data."""
    with sender(mode_e) as [data]:
        mode_e.send("STOR /f")
        data.sendall(Header(EOF, 0, 1).encode() + Header(EOD, 3, 0).encode() + b"abc")
        assert mode_e.outcome().code == 226
        mode_e.send("STOR /g")
        data.sendall(blocks([(0, b"next")]))
        assert mode_e.outcome().code == 226
    assert [(folder / name).read_bytes() for name in "fg"] == [b"abc", b"next"]


def test_a_cached_channel_carries_file_after_file(mode_e, folder):
    """All in one segment, before the first command: what belongs to later files waits for them."""
    stream = b"".join(blocks([(0, b"file %d" % number)]) for number in range(200))
    with sender(mode_e) as [data]:
        data.sendall(stream)
        mode_e.send(*(f"STOR /{number}" for number in range(200)))
        outcomes = [mode_e.outcome() for _ in range(200)]
    assert {outcome.code for outcome in outcomes} == {226}
    assert [outcome.preliminary[0].code for outcome in outcomes[:3]] == [150, 125, 125]
    for number in range(200):
        assert (folder / str(number)).read_bytes() == b"file %d" % number


def test_other_commands_may_stand_between_those_that_move_data(mode_e, folder):
    with sender(mode_e) as [data]:
        data.sendall(blocks([(0, b"one")]) + blocks([(0, b"two")]))
        outcomes = mode_e.ask_all(
            "STOR /a", "MFMT 20200102030405 /a", "SIZE /a", "MKD /d", "STOR /d/b", "RNFR /d/b", "RNTO /d/c", "MLST /d/c"
        )
    assert [outcome.code for outcome in outcomes] == [226, 213, 213, 257, 226, 350, 250, 250]
    assert (folder / "d" / "c").read_bytes() == b"two"


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("size", [0, 1024, LARGE])
def test_third_party_between_two_of_ours(serve, tmp_path, size, parallelism):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    contents = [os.urandom(size) for _ in range(6)]
    for number, content in enumerate(contents):
        (tmp_path / "a" / str(number)).write_bytes(content)
    source, destination = serve(tmp_path / "a"), serve(tmp_path / "b")
    with Dialogue(source.port) as at_source, Dialogue(destination.port) as at_destination:
        pair = ThirdParty(at_source, at_destination, parallelism)
        for _ in range(2):
            outcomes = pair.move([(f"/{number}", f"/{number}") for number in range(6)])
            assert {(sent.code, received.code) for sent, received in outcomes} == {(226, 226)}
            assert [received.ranges.total for _, received in outcomes] == [size] * 6
        pair.connect()
        assert pair.move([("/0", "/again")])[0][1].code == 226
    for number, content in enumerate(contents):
        assert (tmp_path / "b" / str(number)).read_bytes() == content


def test_a_shorter_file_replaces_a_longer_one(mode_e, folder):
    (folder / "f").write_bytes(b"x" * 1000)
    with sender(mode_e) as [data]:
        data.sendall(blocks([(0, b"short")]))
        assert mode_e.ask("STOR /f").code == 226
    assert (folder / "f").read_bytes() == b"short"


def test_a_sender_must_connect_and_a_receiver_must_not(mode_e, folder):
    (folder / "f").write_bytes(b"x")
    mode_e.passive()
    assert mode_e.ask("RETR /f").code == 425
    with listen() as listener:
        mode_e.port(listener.getsockname())
        assert mode_e.ask("STOR /new").code == 425
    assert not (folder / "new").exists()


def test_listings_travel_in_blocks_too(mode_e, folder):
    (folder / "f").write_bytes(b"x")
    (folder / "g").write_bytes(b"content")
    mode_e.demand("OPTS RETR Parallelism=2,2,2;")
    with listen() as listener:
        mode_e.port(listener.getsockname())
        mode_e.send("NLST /", "RETR /g")
        with accept(listener) as first, accept(listener) as second:
            names = b"".join(data for _, data in sorted(read_blocks(first)[0].items()))
            assert read_blocks(second)[0] == {}
            assert sorted(names.split()) == [b"f", b"g"]
            assert read_blocks(first)[0] == {0: b"content"}
            assert [mode_e.outcome().code, mode_e.outcome().code] == [226, 226]


# ---- parts of files


@pytest.mark.parametrize(
    "ranges",
    ["0-10", "5-6,8-9", "0-100000,200000-300000", "0-300000", "299999-300000", "0-999999999999", "400000-500000"],
)
def test_only_the_gaps_are_sent_and_the_rest_is_kept(serve, tmp_path, ranges):
    content = os.urandom(300_000)
    known = RangeSet.parse(ranges)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "f").write_bytes(content)
    half = bytearray(300_000)
    for start, end in known:
        half[start:end] = content[start:end]
    (tmp_path / "b" / "f").write_bytes(half)
    with Dialogue(serve(tmp_path / "a").port) as source, Dialogue(serve(tmp_path / "b").port) as destination:
        pair = ThirdParty(source, destination, 2)
        source.demand(f"REST {ranges}")
        destination.demand(f"REST {ranges}")
        [(sent, received)] = pair.move([("/f", "/f")])
        assert (sent.code, received.code) == (226, 226)
        assert list(received.ranges) == known.gaps(300_000)
        # The next file is whole again.
        [(sent, received)] = pair.move([("/f", "/g")])
        assert received.ranges.total == 300_000
    for name in "fg":
        assert (tmp_path / "b" / name).read_bytes() == content


def test_a_transfer_that_broke_is_finished_from_its_markers(mode_e, folder):
    content = os.urandom(LARGE)
    mode_e.demand("TREV RESTART 1")
    with sender(mode_e, 2) as sockets:
        mode_e.send("STOR /f")
        sockets[0].sendall(Header(0, 1_000_000, 0).encode() + content[:600_000])
        sockets[1].sendall(Header(0, 1_000_000, 2_000_000).encode() + content[2_000_000:3_000_000])
        eventually(lambda: size_of(folder / "f") == 3_000_000)
        time.sleep(0.1)
        reset(sockets[0])
        outcome = mode_e.outcome()
    assert outcome.code == 426
    assert outcome.ranges == RangeSet([(0, 600_000), (2_000_000, 3_000_000)])
    mode_e.demand(f"REST {outcome.ranges.format()}")
    with sender(mode_e) as [data]:
        mode_e.send("STOR /f")
        data.sendall(blocks([(start, content[start:end]) for start, end in outcome.ranges.gaps(LARGE)]))
        second = mode_e.outcome()
    assert second.code == 226
    assert second.ranges.union(outcome.ranges).covers(LARGE)
    assert (folder / "f").read_bytes() == content


def test_a_part_is_retrieved_and_stored_elsewhere(serve, tmp_path):
    """Offsets are those of the toolkit: the data of ERET begin at 0, and ESTO adds its own offset."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "f").write_bytes(b"0123456789")
    (tmp_path / "b" / "f").write_bytes(b"x" * 8)
    with Dialogue(serve(tmp_path / "a").port) as source, Dialogue(serve(tmp_path / "b").port) as destination:
        ThirdParty(source, destination)
        destination.send("ESTO A 2 /f", "ESTO A 0 /g", "ESTO A 0 /h")
        source.send("ERET P 5 3 /f", "ERET P 8 100 /f", "ERET P 100 5 /f")
        assert [source.outcome().code for _ in range(3)] == [226] * 3
        assert [destination.outcome().code for _ in range(3)] == [226] * 3
    assert (tmp_path / "b" / "f").read_bytes() == b"xx567xxx"
    assert (tmp_path / "b" / "g").read_bytes() == b"89"
    assert (tmp_path / "b" / "h").read_bytes() == b""


# ---- markers


def test_markers_come_while_data_flows_and_before_the_end(mode_e):
    mode_e.demand("TREV RESTART 1", "TREV PERF 1")
    with sender(mode_e) as [data]:
        mode_e.send("STOR /f")
        for number in range(5):
            data.sendall(Header(0, 1000, number * 1000).encode() + bytes(1000))
            time.sleep(0.5)
        data.sendall(end_of_data(1))
        outcome = mode_e.outcome()
    codes = [reply.code for reply in outcome.preliminary]
    assert codes[0] == 150
    assert 112 in codes[-2:]
    assert codes.count(111) >= 2
    performance = [parse_marker(112, reply.lines) for reply in outcome.preliminary if reply.code == 112]
    totals = [marker.bytes for marker in performance if isinstance(marker, PerfMarker)]
    assert totals == sorted(totals)
    assert totals[-1] == 5000
    # Restart markers are incremental: no octet is reported twice.
    single = [parse_marker(111, reply.lines) for reply in outcome.preliminary if reply.code == 111]
    assert sum(marker.ranges.total for marker in single if not isinstance(marker, PerfMarker)) == 5000


@pytest.mark.parametrize("command", ["STOR /f", "ESTO A 0 /f"])
def test_neither_a_marker_nor_the_end_of_a_large_file_is_reported_before_the_disk_has_it(mode_e, monkeypatch, command):
    on_the_disk = threading.Event()
    monkeypatch.setattr(disk_sync, "_sync", lambda fd: on_the_disk.wait(20))
    mode_e.demand("TREV RESTART 1", "TREV PERF 0")
    with sender(mode_e) as [data]:
        mode_e.send(command)
        assert mode_e.next_reply().code == 150
        data.sendall(blocks([(0, os.urandom(SYNCED_FROM))]))
        mode_e.sock.settimeout(1.5)
        with pytest.raises(TimeoutError):
            mode_e.next_reply()
        mode_e.sock.settimeout(20)
        on_the_disk.set()
        outcome = mode_e.outcome()
    assert outcome.code == 226
    assert outcome.ranges == RangeSet([(0, SYNCED_FROM)])


def test_a_disk_that_refuses_what_was_received_fails_the_file(mode_e, monkeypatch):
    """A quota on a server of files may be known only when the octets reach it."""

    def refuse(fd: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(disk_sync, "_sync", refuse)
    mode_e.demand("TREV RESTART 1")
    with sender(mode_e) as [data]:
        mode_e.send("STOR /f")
        # The server may refuse the file before it has read the last octets.
        with contextlib.suppress(ConnectionError):
            data.sendall(blocks([(0, os.urandom(SYNCED_FROM))]))
        outcome = mode_e.outcome()
    assert outcome.code == 552
    assert classify(outcome.reply).kind is Kind.QUOTA_EXCEEDED
    assert not outcome.ranges


def test_small_files_wait_for_no_disk(mode_e, monkeypatch):
    monkeypatch.setattr(disk_sync, "_sync", lambda fd: pytest.fail("a small file was synced"))
    mode_e.demand("TREV RESTART 1")
    with sender(mode_e) as [data]:
        for number in range(3):
            mode_e.send(f"STOR /f{number}")
            data.sendall(blocks([(0, b"x" * 1000)]))
            assert mode_e.outcome().code == 226


def test_markers_that_nobody_wants_do_not_come(mode_e):
    mode_e.demand("TREV RESTART 0", "TREV PERF 0")
    with sender(mode_e) as [data]:
        data.sendall(blocks([(0, b"x")]))
        assert [reply.code for reply in mode_e.ask("STOR /f").preliminary] == [150]


def test_an_empty_file_has_no_ranges(mode_e, folder):
    with sender(mode_e) as [data]:
        data.sendall(blocks([]))
        outcome = mode_e.ask("STOR /f")
    assert outcome.code == 226
    assert [reply.code for reply in outcome.preliminary] == [150, 112]
    assert (folder / "f").read_bytes() == b""


# ---- what goes wrong


@pytest.mark.parametrize(
    "stream",
    [
        b"x" * 17,
        Header(SUSPECT, 5, 0).encode() + b"12345",
        Header(0, 2**63, 0).encode(),
        Header(0, 5, 2**63 - 2).encode() + b"12345",
        Header(EOF, 0, 0).encode(),
        Header(EOF, 0, 100_000).encode(),
        Header(EOF, 7, 1).encode(),
        Header(EOD, 0, 0).encode() + Header(EOF | EOD, 0, 1).encode(),
    ],
)
def test_blocks_that_are_none_end_the_transfer(mode_e, stream):
    with sender(mode_e, 2) as [first, second]:
        mode_e.send("STOR /f")
        first.sendall(stream[:17])
        with suppress(ConnectionError):
            second.sendall(stream[17:] or end_of_data(3))
        outcome = mode_e.outcome()
    assert outcome.code == 426
    assert "Not the blocks of MODE E" in outcome.text
    assert mode_e.ask("NOOP").code == 200


def test_a_stream_that_ends_without_eod_is_no_whole_file(mode_e):
    mode_e.demand("TREV RESTART 1")
    with sender(mode_e, 2) as [first, second]:
        mode_e.send("STOR /f")
        first.sendall(blocks([(0, b"all of it")], 2))
        # The end of a stream may be seen before the octets of another one.
        replies = [mode_e.next_reply()]
        while replies[-1].code != 111:
            replies.append(mode_e.next_reply())
        second.sendall(Header(0, 10, 100).encode() + b"half")
        second.close()
        outcome = mode_e.outcome()
    assert outcome.code == 426
    assert classify(outcome.reply).kind is Kind.CONNECTION_BROKEN
    outcome.preliminary[:0] = replies
    assert outcome.ranges == RangeSet([(0, 9), (100, 104)])


def test_a_receiver_that_goes_is_noticed(mode_e, folder):
    with open(folder / "f", "wb") as file:
        file.truncate(2**30)
    with listen() as listener:
        mode_e.port(listener.getsockname())
        mode_e.send("RETR /f", "RETR /f")
        reset(accept(listener))
        outcome = mode_e.outcome()
        assert outcome.code in (425, 426)
        assert classify(outcome.reply).kind is Kind.CONNECTION_RESET
        assert mode_e.outcome().code == 425


def test_a_receiver_that_does_not_listen_is_noticed(mode_e, folder):
    (folder / "f").write_bytes(b"x")
    with listen() as listener:
        address = listener.getsockname()
    mode_e.port(address)
    outcome = mode_e.ask("RETR /f")
    assert outcome.code == 425
    assert "Connection refused" in outcome.text


def test_silence_has_an_end_on_either_side(serve, folder):
    with open(folder / "f", "wb") as file:
        file.truncate(2**30)
    server = serve(limits=ServerLimits(stall_seconds=0.3, connect_seconds=0.3))
    with Dialogue(server.port) as dialogue, listen() as listener:
        dialogue.demand("MODE E")
        dialogue.passive()
        nobody = dialogue.ask("STOR /x")
        with connect(dialogue.passive()) as data:
            data.sendall(Header(0, 10, 0).encode())
            silent = dialogue.ask("STOR /x")
        dialogue.port(listener.getsockname())
        dialogue.send("RETR /f")
        with accept(listener):
            deaf = dialogue.outcome()
        dialogue.demand("MODE S")
        dialogue.passive()
        alone = dialogue.ask("RETR /f")
    assert [outcome.code for outcome in (nobody, silent, deaf, alone)] == [425, 426, 426, 425]
    assert {classify(outcome.reply).kind for outcome in (nobody, silent, deaf, alone)} == {Kind.TIMEOUT}


def test_a_file_that_shrinks_while_it_is_sent_ends_the_transfer(mode_e, folder):
    with open(folder / "f", "wb") as file:
        file.truncate(2**30)
    with listen() as listener:
        mode_e.port(listener.getsockname())
        mode_e.send("RETR /f")
        with accept(listener) as data:
            data.recv(100_000)
            os.truncate(folder / "f", 1000)
            with suppress(EOFError):
                read_blocks(data)
        outcome = mode_e.outcome()
    assert outcome.code == 451
    assert "shorter" in outcome.text


def test_a_file_that_grows_while_it_is_sent_is_sent_as_it_was_found(mode_e, folder):
    size = 200 * 2**20
    with open(folder / "f", "wb") as file:
        file.truncate(size)
    with listen() as listener:
        mode_e.port(listener.getsockname())
        mode_e.send("RETR /f")
        with accept(listener) as data:
            assert data.recv(0) == b""
            os.truncate(folder / "f", 2 * size)
            found, _ = read_blocks(data)
        assert mode_e.outcome().code == 226
    assert sum(map(len, found.values())) == size


def test_abor_ends_the_transfer_at_work_and_no_other_file_is_touched(mode_e, folder):
    with sender(mode_e) as [data]:
        mode_e.send("STOR /f", "STOR /g")
        data.sendall(Header(0, 10, 0).encode() + b"half")
        eventually(lambda: (folder / "f").exists())
        mode_e.send("ABOR", "NOOP")
        outcomes = [mode_e.outcome() for _ in range(4)]
    assert [outcome.code for outcome in outcomes] == [426, 425, 226, 200]
    assert not (folder / "g").exists()
    with sender(mode_e) as [data]:
        data.sendall(blocks([(0, b"again")]))
        assert mode_e.ask("STOR /g").code == 226


def test_abor_without_a_transfer_does_nothing(mode_e, folder):
    assert mode_e.ask("ABOR").code == 226
    with sender(mode_e) as [data]:
        data.sendall(blocks([(0, b"x")]))
        assert mode_e.ask("STOR /g").code == 226


def test_more_streams_than_the_limit_are_turned_away(serve):
    server = serve(limits=ServerLimits(streams=2))
    with Dialogue(server.port) as dialogue:
        dialogue.demand("MODE E")
        with sender(dialogue, 3) as [first, second, third]:
            dialogue.send("STOR /f")
            assert third.recv(1) == b""
            first.sendall(blocks([(0, b"ab")], 2))
            second.sendall(blocks([(2, b"cd")], None))
            assert dialogue.outcome().code == 226


# ---- a full disk

SERVE_WITH_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))
sys.argv = ["server", "--root", sys.argv[1], "--port", "0"]
from endpoints.gridftp.server.__main__ import main
main()
"""


@pytest.fixture
def limited_port(folder) -> Iterator[int]:
    """A server whose files can have a million octets and no more."""
    command = [sys.executable, "-c", SERVE_WITH_LIMIT, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield int(process.stdout.readline().rpartition(":")[2])
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("size", [1_000_001, LARGE])
def test_a_file_that_does_not_fit_is_a_fault_of_its_own(limited_port, folder, size):
    content = os.urandom(size)
    with Dialogue(limited_port) as dialogue:
        dialogue.demand("MODE E")
        with sender(dialogue) as [data]:
            dialogue.send("STOR /f", "STOR /g")
            with suppress(ConnectionError):
                data.sendall(blocks([(0, content)]) + blocks([(0, b"next")]))
            full, refused = dialogue.outcome(), dialogue.outcome()
        assert (full.code, refused.code) == (552, 425)
        assert classify(full.reply).kind is Kind.NO_SPACE_LEFT
        for start, end in full.ranges:
            assert (folder / "f").read_bytes()[start:end] == content[start:end]
        with sender(dialogue) as [data]:
            data.sendall(blocks([(0, b"it goes on")]))
            assert dialogue.ask("STOR /g").code == 226


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_says_so(serve, folder):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        server = serve()
        with Dialogue(server.port) as dialogue:
            dialogue.demand("MODE E")
            with sender(dialogue) as [data], suppress(ConnectionError):
                dialogue.send("STOR /f")
                data.sendall(blocks([(0, bytes(LARGE))]))
            outcome = dialogue.outcome()
        assert outcome.code == 552
        assert "No space left on device" in outcome.text
        server.stop()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


# ---- resources


def test_nothing_is_left_open_after_transfers_that_failed_in_every_way(serve, folder):
    (folder / "f").write_bytes(bytes(LARGE))
    server = serve(limits=ServerLimits(stall_seconds=0.1, connect_seconds=0.1))
    before = _descriptors()
    with Dialogue(server.port) as dialogue, listen() as listener:
        for mode in "ES":
            dialogue.demand(f"MODE {mode}")
            for command in ("STOR /x", "RETR /f", "RETR /none", "STOR /x/y", "MLSD /", "NLST /none", "APPE /x"):
                dialogue.passive()
                dialogue.ask(command)
                dialogue.port(listener.getsockname())
                dialogue.ask(command)
    eventually(lambda: server.sessions == 0)
    assert _descriptors() <= before


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.own_interpreter
@pytest.mark.parametrize("protection", ["clear", "encrypted"])
def test_a_large_file_with_64_streams_costs_less_than_60_mb(tmp_path, protection):
    """Two servers as processes of their own; what they held at most."""
    size = 500 * 2**20 if protection == "clear" else 200 * 2**20
    key = make_throw_away(new_key(), name="lane", now=datetime.now(UTC), made_at=0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with open(tmp_path / "a" / "f", "wb") as file:
        file.truncate(size)
    with _process(tmp_path / "a") as (source_port, source), _process(tmp_path / "b") as (destination_port, destination):
        with Dialogue(source_port) as at_source, Dialogue(destination_port) as at_destination:
            for session in (at_source, at_destination) if protection == "encrypted" else ():
                session.demand(b"DCSC " + key.argument, "DCAU A", "PROT P")
            [(sent, received)] = ThirdParty(at_source, at_destination, 64).move([("/f", "/f")])
            assert (sent.code, received.code) == (226, 226)
        peaks = {"source": _peak(source), "destination": _peak(destination)}
        assert max(peaks.values()) < 60 * 10**6, peaks
    assert (tmp_path / "b" / "f").stat().st_size == size


@contextmanager
def _process(root: Path) -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        process.terminate()


def _peak(pid: int) -> int:
    """Octets of memory held at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")
