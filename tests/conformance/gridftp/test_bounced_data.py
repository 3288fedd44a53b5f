"""Servers that name somebody else's address for their data: nobody is made to connect there (RFC 2577, FTP bounce)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.commands import format_host_port
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, Side
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.gridftp.third_party.slots import FileEvent, FileRefused
from tests.fences import open_fence
from transferapi.tasks.records import FileRow, TaskEndpoint, TaskSpec
from workers.session_factory import RealSessions
from workers.sessions.pool import Address, SessionPool
from workers.sessions.server_addresses import Place, ServersBySide

SPEC = TaskSpec("t", False, TaskEndpoint("1", "go#ep1"), TaskEndpoint("2", "go#ep2"), {}, max_sessions=5)
HOST = "127.0.0.1"
#: Stands for another host: its address differs from HOST.
VICTIM = "127.0.0.2"


@dataclass
class Liar:
    """A server that logs everybody in and answers PASV, SPAS and EPSV as a test wants it."""

    features: str = "SPAS"
    answers: dict[str, str] = field(default_factory=dict)
    port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        writer.write(b"220 ready\r\n")
        usual = {"USER": "331 password", "PASS": "230 in", "FEAT": f"211-\r\n {self.features}\r\n211 End",
                 "PWD": '257 "/"', "STOR": "150 waiting"}  # fmt: skip
        while line := await reader.readline():
            verb = line.split()[0].decode()
            writer.write((self.answers.get(verb) or usual.get(verb, "200 ok")).encode() + b"\r\n")
        writer.close()


@asynccontextmanager
async def lying(liar: Liar) -> AsyncIterator[Liar]:
    server = await asyncio.start_server(liar.serve, HOST)
    liar.port = server.sockets[0].getsockname()[1]
    yield liar
    server.close()
    for writer in liar.writers:
        writer.transport.abort()
    await asyncio.sleep(0.01)


@contextmanager
def victim() -> Iterator[socket.socket]:
    """Somebody's server at another address."""
    with socket.create_server((VICTIM, 0)) as listening:
        listening.setblocking(False)
        yield listening


def was_left_alone(listening: socket.socket) -> bool:
    with pytest.raises(BlockingIOError):
        listening.accept()
    return True


def sessions(source: int, destination: int, hosts: list[str], gate: set[DataAddress]) -> RealSessions:
    """hosts: those that the owner of the destination has registered; all names are of the victim."""
    places = ServersBySide(
        {Side.SOURCE: [Place(HOST, source)], Side.DESTINATION: [Place(HOST, destination)]},
        data_hosts={Side.DESTINATION: hosts},
    )
    return RealSessions(
        SPEC,
        places,
        SessionPool(),
        open_fence(),
        resolve=lambda host, _: [host],
        accept_address=lambda address: address in gate,
        look_up=lambda _: {VICTIM},
    )


async def outcome(made: RealSessions) -> FileEvent:
    """Feed one file to a lane and return the event that ends it."""
    async with asyncio.timeout(10):
        lane = await made.lane()
        lane.use_streams(1)
        lane.feed(FileRow(1, 1, "/file", "/copy", 5))
        event = (await lane.events())[0]
        await lane.close()
    return event


@pytest.fixture
def source(tmp_path: Path) -> Iterator[GridFtpServer]:
    (tmp_path / "file").write_bytes(b"hello")
    server = GridFtpServer(tmp_path)
    server.start()
    yield server
    server.stop()


def striped(*addresses: DataAddress) -> dict[str, str]:
    lines = "".join(f" {format_host_port(*address).decode()}\r\n" for address in addresses)
    return {"PASV": f"227 ({format_host_port(*addresses[-1]).decode()})", "SPAS": f"229-Striped\r\n{lines}229 End"}


@pytest.mark.parametrize("features", ["SPAS", "UTF8"])
async def test_a_source_is_not_sent_to_a_host_that_nobody_has_registered(source: GridFtpServer, features: str) -> None:
    with victim() as listening:
        port = listening.getsockname()[1]
        async with lying(Liar(features, striped((HOST, 40_000), (VICTIM, port)))) as liar:
            # The gate alone would let it pass, as it lets pass every host of the Internet.
            event = await outcome(sessions(source.port, liar.port, [], {(VICTIM, port)}))
        assert isinstance(event, FileRefused)
        assert (event.fault.kind, event.fault.side) == (Kind.CONNECT_FAILED, Side.DESTINATION)
        assert VICTIM in event.fault.advice
        assert was_left_alone(listening)


@pytest.mark.parametrize("port", [0, 22, 25, 1023])
async def test_a_source_is_not_sent_to_a_well_known_port_not_even_of_the_server_itself(
    source: GridFtpServer, port: int
) -> None:
    async with lying(Liar("UTF8", striped((HOST, port)))) as liar:
        event = await outcome(sessions(source.port, liar.port, ["nodes"], {(VICTIM, port), (HOST, port)}))
    assert isinstance(event, FileRefused)
    assert f"port {port}" in event.fault.advice


async def test_a_registered_host_still_has_to_pass_the_gate_with_this_port(source: GridFtpServer) -> None:
    with victim() as listening:
        port = listening.getsockname()[1]
        async with lying(Liar("UTF8", striped((VICTIM, port)))) as liar:
            event = await outcome(sessions(source.port, liar.port, ["nodes"], set()))
            assert isinstance(event, FileRefused)
            assert was_left_alone(listening)


async def test_a_registered_host_is_sent_to(source: GridFtpServer) -> None:
    with victim() as node:
        node.setblocking(True)
        node.settimeout(10)
        port = node.getsockname()[1]
        async with lying(Liar("UTF8", striped((VICTIM, port)))) as liar:
            made = sessions(source.port, liar.port, ["nodes"], {(VICTIM, port)})
            moving = asyncio.create_task(outcome(made))
            connection, _ = await asyncio.to_thread(node.accept)
            connection.close()
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)


async def test_who_stops_to_wait_for_the_look_up_of_data_hosts_leaves_no_session_behind(source: GridFtpServer) -> None:
    began, over = threading.Event(), threading.Event()
    threads: list[str] = []

    def hangs(_: str) -> Collection[str]:
        threads.append(threading.current_thread().name)
        began.set()
        over.wait(60)
        return ()

    async with lying(Liar("UTF8")) as liar:
        made = sessions(source.port, liar.port, ["nodes"], set())
        made._addresses._look_up = hangs
        opening = asyncio.create_task(made.lane())
        try:
            assert await asyncio.to_thread(began.wait, 10)
            assert [made._pool.in_use(Address(HOST, port)) for port in (source.port, liar.port)] == [1, 1]
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            assert [made._pool.in_use(Address(HOST, port)) for port in (source.port, liar.port)] == [0, 0]
        finally:
            over.set()
            made._pool.forget("")
    assert threads[0].startswith("look-up"), "asyncio's own threads are for others"


@pytest.mark.parametrize(
    "answers",
    [
        *({"EPSV": answer} for answer in ("229 (|||22|)", "229 (|||0|)", "229 (|1|8.8.8.8|2000|)", "421 later")),
        *({"EPSV": "502 no", "PASV": answer} for answer in ("227 (127,0,0,1,0,22)", "227 (8,8,8,8,1,1,1)", "227 ok")),
    ],
)
async def test_a_listing_makes_us_connect_to_no_well_known_port_and_nobody_else(answers: dict[str, str]) -> None:
    async with lying(Liar("UTF8", answers)) as liar:
        session = await GridFTPSession.open(HOST, liar.port)
        with pytest.raises(FaultError) as refused:
            _ = [entries async for entries in session.listing("/")]
        session.connection.abort()
    # 421 ends the session (RFC 959 section 4.2).
    ended = answers["EPSV"].startswith("421")
    expected = (Kind.CONNECTION_BROKEN,) if ended else (Kind.CONNECT_FAILED, Kind.ENDPOINT_ERROR)
    assert refused.value.fault.kind in expected
    assert "8.8.8.8" not in refused.value.fault.advice


async def test_without_epsv_the_address_of_pasv_is_not_used_but_its_port() -> None:
    async def contents(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"Type=file;Size=3; here\r\n")
        writer.close()

    data = await asyncio.start_server(contents, HOST)
    port = data.sockets[0].getsockname()[1]
    answers = {"EPSV": "500 what?", "PASV": f"227 ({VICTIM.replace('.', ',')},{port // 256},{port % 256})"}
    answers |= {"MLST": "250-\r\n Type=dir; /\r\n250 End"}
    async with lying(Liar("UTF8", {**answers, "MLSD": "150 here\r\n226 done"})) as liar:
        session = await GridFTPSession.open(HOST, liar.port)
        found = [entry.name for entries in [batch async for batch in session.listing("/")] for entry in entries]
        session.connection.abort()
    data.close()
    assert found == ["here"]


@pytest.mark.parametrize(
    "greeting", [b"-ERR secret banner\r\n", b"SSH-2.0-secret banner\r\n", b"secret banner " * 6000]
)
async def test_what_a_server_of_another_kind_greets_with_is_shown_to_nobody(greeting: bytes) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, HOST)
    with pytest.raises(FaultError) as refused:
        await GridFTPSession.open(HOST, server.sockets[0].getsockname()[1])
    server.close()
    fault = refused.value.fault
    assert "does not speak GridFTP" in fault.advice
    assert "secret" not in f"{fault.raw}{fault.advice}"
    assert fault.scope is FaultScope.SESSION
