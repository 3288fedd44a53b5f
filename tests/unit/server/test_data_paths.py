"""The ways of the server's data where the kernel's short cuts do not work, and the parts that need no session."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from itertools import pairwise

import pytest

from endpoints.gridftp.ranges import MAX_RANGES
from endpoints.gridftp.server.data.connection import DataConnection
from endpoints.gridftp.server.data.connector import PortRange
from endpoints.gridftp.server.data.disk_sync import DiskSync
from endpoints.gridftp.server.data.progress import MarkerIntervals, MarkerWriter
from endpoints.gridftp.server.data.receive import Sink
from endpoints.gridftp.server.data.send import Source
from endpoints.gridftp.server.errors import AbortedError, ServerError, os_error_reply
from endpoints.gridftp.server.interrupt import Interrupt


@pytest.fixture
def sockets():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        far.settimeout(60)
        yield DataConnection(near), far


def fresh_progress() -> MarkerWriter:
    return MarkerWriter(lambda _: None, MarkerIntervals(), DiskSync(-1))


def splice_all(sink: Sink, connection: DataConnection, length: int) -> None:
    """Receive as the server does: splice as long as the sink wants it, and read otherwise."""
    at = 0
    while at < length:
        try:
            if sink.wants_splice(connection, 2**20):
                at += sink.splice(connection, at, length - at)
            else:
                data = connection.sock.recv(65536)
                sink.write(at, data)
                at += len(data)
        except BlockingIOError:
            pass


@pytest.mark.parametrize("flags", [0, os.O_APPEND], ids=["splice", "no splice"])
def test_a_file_that_cannot_be_spliced_to_arrives_all_the_same(tmp_path, sockets, flags):
    """The kernel refuses to splice to a file that is open for appending; what the pipe holds then is not lost."""
    near, far = sockets
    content = os.urandom(3 * 2**20)
    fd = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT | flags)
    sink = Sink(fd, 0, fresh_progress())
    feeder = threading.Thread(target=far.sendall, args=(content,))
    feeder.start()
    try:
        splice_all(sink, near, len(content))
    finally:
        feeder.join()
        sink.close()
        os.close(fd)
    assert (tmp_path / "f").read_bytes() == content
    assert sink.progress.octets == len(content)
    assert sink.wants_splice(near, 2**20) == (flags == 0)


def test_a_file_that_cannot_be_sent_by_the_kernel_is_copied(sockets):
    """Files of /proc cannot always be spliced from; whether or not, the octets are those of the file."""
    near, far = sockets
    with open("/proc/self/cmdline", "rb") as file:
        content = file.read()
        source = Source(file.fileno(), [(0, len(content))])
        at = 0
        while at < len(content):
            at += source.send(near, at, len(content) - at)
    received = b""
    while len(received) < len(content):
        received += far.recv(65536)
    assert received == content


def test_a_source_that_ends_early_says_so(tmp_path, sockets):
    (tmp_path / "f").write_bytes(b"short")
    with open(tmp_path / "f", "rb") as file:
        source = Source(file.fileno(), [(0, 100)])
        with pytest.raises(ServerError, match="shorter"):
            source.read_all(0, 100)
        with pytest.raises(ServerError, match="shorter"):
            source.send(sockets[0], 50, 50)


def test_a_source_is_cut_into_blocks_without_its_gaps(tmp_path):
    (tmp_path / "f").touch()
    with open(tmp_path / "f", "rb") as file:
        source = Source(file.fileno(), [(5, 10), (100, 100 + 9 * 2**20)])
    blocks = list(source.blocks())
    assert blocks[0] == (5, 10)
    assert blocks[1][0] == 100
    assert all(before[1] == after[0] for before, after in pairwise(blocks[1:]))
    assert blocks[-1][1] == 100 + 9 * 2**20
    assert sum(end - start for start, end in blocks) == source.octets


def test_a_file_in_endless_pieces_is_given_up():
    progress = fresh_progress()
    for number in range(MAX_RANGES):
        progress.add(2 * number, 2 * number + 1)
    with pytest.raises(ServerError, match="too many pieces"):
        progress.add(3 * MAX_RANGES, 3 * MAX_RANGES + 1)


def test_an_interrupt_wakes_whoever_polls_and_is_forgotten_when_cleared():
    interrupt = Interrupt()
    interrupt.check()
    interrupt.set()
    interrupt.set()
    with pytest.raises(AbortedError):
        interrupt.check()
    assert select.select([interrupt.fd], [], [], 0)[0]
    interrupt.clear()
    assert not select.select([interrupt.fd], [], [], 0)[0]
    interrupt.clear()
    interrupt.check()
    interrupt.close()
    interrupt.set()


@pytest.mark.parametrize("bounds", [(0, 5), (5, 4), (1, 65536)])
def test_a_range_of_ports_is_one(bounds):
    with pytest.raises(ValueError, match="range of ports"):
        PortRange(*bounds)


@pytest.mark.parametrize(
    ("number", "naming", "code"),
    [
        (errno.ENOENT, True, 550), (errno.EACCES, True, 553), (errno.EACCES, False, 550), (errno.ENOSPC, True, 552),
        (errno.EDQUOT, False, 552), (errno.EFBIG, True, 552), (errno.EMFILE, True, 451), (errno.EIO, False, 451),
    ],
)  # fmt: skip
def test_the_code_of_a_refusal_shows_whose_fault_it_is(number, naming, code):
    reply = os_error_reply(OSError(number, os.strerror(number)), "STOR", naming=naming).decode()
    assert reply.startswith(f"{code}-")
    assert reply.endswith(f"{code} End.\r\n")
    assert os.strerror(number) in reply
