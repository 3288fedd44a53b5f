"""Files that come and go slowly through this service: what moves is not silent, and what stands still is given up."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.streams import passive
from endpoints.gridftp.streams.data_stream import DataStream
from endpoints.gridftp.wire.server_memory import ServerMemory
from tests.gridftp.small_ftp import HANG_UP, FtpSession, SmallFtp

#: Stands for the 90 s of the product.
STALL = 0.6
SIZE = 60_000


class Slow(SmallFtp):
    """Moves a twentieth of the file each tenth of a second: much longer than the limit, with never so long a pause."""

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        content = path.read_bytes()[offset:]
        for start in range(0, len(content), 3_000):
            connection.sendall(content[start : start + 3_000])
            time.sleep(0.1)

    def receiving(self, connection: socket.socket, path: Path, offset: int) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with path.open("wb") as file:
            while data := connection.recv(150_000):
                file.write(data)
                time.sleep(0.1)


class Deaf(SmallFtp):
    """Neither sends nor takes any octet, until the test is over."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.over = threading.Event()

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        self.over.wait(20)

    def receiving(self, connection: socket.socket, path: Path, offset: int) -> None:
        self.over.wait(20)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are used again by other servers of the tests."""
    monkeypatch.setattr(passive, "_extended", ServerMemory[bool]())


async def session_with(server: SmallFtp) -> GridFTPSession:
    session = await GridFTPSession.open("127.0.0.1", server.port, timeout=10)
    session.connection.stall_timeout = STALL
    # The watch of the connection looks at its limit each five seconds else.
    session.connection._check_stall()
    return session


async def test_a_file_that_comes_slowly_is_read_to_its_end(tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(content)
    with Slow(tmp_path) as server:
        session = await session_with(server)
        stream = await DataStream.open(session, "RETR", "/file")
        found = b""
        while data := await stream.read():
            found += data
        await stream.close()
        assert found == content
        assert (await session.stat("/file")).size == SIZE, "the session is as before"
        await session.close()


async def test_a_file_that_is_taken_slowly_is_written_to_its_end(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    with Slow(tmp_path) as server:
        session = await session_with(server)
        stream = await DataStream.open(session, "STOR", "/file")
        for start in range(0, len(content), 250_000):
            await stream.send(content[start : start + 250_000])
        await stream.end()
        await stream.close()
        assert (tmp_path / "file").read_bytes() == content
        await session.close()


async def test_a_reader_that_takes_its_time_is_not_the_servers_silence(tmp_path: Path) -> None:
    content = os.urandom(SIZE)
    (tmp_path / "file").write_bytes(content)
    with SmallFtp(tmp_path) as server:
        session = await session_with(server)
        stream = await DataStream.open(session, "RETR", "/file")
        found = await stream.read()
        # Another file of the task has its turn, or the bandwidth is used up.
        await asyncio.sleep(3 * STALL)
        while data := await stream.read():
            found += data
        assert found == content
        await session.close()


async def send_much(stream: DataStream) -> None:
    """More than all buffers take."""
    for _ in range(100):
        await stream.send(bytes(250_000))


@pytest.mark.parametrize("verb", ["RETR", "STOR"])
async def test_a_server_that_moves_nothing_is_given_up(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_bytes(b"x" * SIZE)
    with Deaf(tmp_path) as server:
        session = await session_with(server)
        stream = await DataStream.open(session, verb, "/file")
        with pytest.raises(FaultError) as refused:
            await (stream.read() if verb == "RETR" else send_much(stream))
        assert refused.value.fault.kind is Kind.TIMEOUT
        server.over.set()
        await stream.close()
        session.abort()


# ---- EPSV that does not work


class Blocked(SmallFtp):
    """A firewall lets nothing through to the ports of EPSV."""

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        if verb != "EPSV":
            return None
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            return f"229 Entering Extended Passive Mode (|||{nobody.getsockname()[1]}|)"


class Refusing(SmallFtp):
    refusal = ""

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        return self.refusal if verb == "EPSV" else None


async def read_whole(session: GridFTPSession) -> bytes:
    stream, found = await DataStream.open(session, "RETR", "/file"), b""
    while data := await stream.read():
        found += data
    await stream.close()
    return found


async def test_where_the_port_of_epsv_is_blocked_pasv_is_tried_and_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with Blocked(tmp_path) as server:
        for _ in range(2):
            session = await GridFTPSession.open("127.0.0.1", server.port, timeout=10)
            assert await read_whole(session) == b"content"
            assert [entry.name async for batch in session.listing("/") for entry in batch] == ["file"]
            await session.close()
        assert (server.count("EPSV"), server.count("PASV")) == (1, 4)


@pytest.mark.parametrize(
    "refusal",
    ["425 Can't open passive connection", "522 Network protocol not supported", "500 what?", "502 no", "550 denied"],
)
async def test_where_epsv_is_refused_pasv_is_tried_and_remembered(tmp_path: Path, refusal: str) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with Refusing(tmp_path) as server:
        server.refusal = refusal
        session = await GridFTPSession.open("127.0.0.1", server.port, timeout=10)
        assert [await read_whole(session) for _ in range(2)] == [b"content"] * 2
        await session.close()
        assert (server.count("EPSV"), server.count("PASV")) == (1, 2)


async def test_where_neither_works_the_fault_says_so(tmp_path: Path) -> None:
    class Closed(Blocked):
        def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
            if verb != "PASV":
                return super().before(verb, argument, session)
            with socket.create_server(("127.0.0.1", 0)) as nobody:
                port = nobody.getsockname()[1]
                return f"227 ok (127,0,0,1,{port // 256},{port % 256})"

    (tmp_path / "file").write_bytes(b"content")
    with Closed(tmp_path) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port, timeout=10)
        with pytest.raises(FaultError) as refused:
            await DataStream.open(session, "RETR", "/file")
        assert refused.value.fault.kind is Kind.CONNECT_FAILED
        assert "by EPSV and by PASV" in refused.value.fault.raw
        session.abort()


# ---- a server that says why, and hangs up


class Hanging(SmallFtp):
    """Says its words at this command and resets the connection, since it has not read what was pipelined."""

    at = words = ""

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        if verb != self.at:
            return None
        session.say(self.words)
        session.control.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.1)
        return HANG_UP


@pytest.mark.parametrize("at", ["USER", "PASS", "PWD", "TYPE"])
@pytest.mark.parametrize("words", ["500 OOPS: vsftpd: refusing to run", "530 Sorry, closed", "421 Closing for backup"])
async def test_the_words_of_a_server_that_hangs_up_are_in_the_fault(tmp_path: Path, at: str, words: str) -> None:
    with Hanging(tmp_path) as server:
        server.at, server.words = at, words
        with pytest.raises(FaultError) as refused:
            await GridFTPSession.open("127.0.0.1", server.port, timeout=10)
    assert words in refused.value.fault.raw
