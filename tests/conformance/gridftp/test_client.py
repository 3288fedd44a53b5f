"""The client against real servers: looking, small changes, and all the ways in which a server can be bad."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from deploy.stack.free_ports import free_port
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.server import GridFtpServer, ServerLimits
from tests.gridftp.features import without
from tests.gridftp.toolkit import ToolkitServer

NAMES = ["plain", " leading and  double blanks ", "semi;colon", "per%cent#hash", "*?[]", "quote'\"", "~x", "x" * 255]


@asynccontextmanager
async def opened(port: int) -> AsyncIterator[GridFTPSession]:
    session = await GridFTPSession.open("127.0.0.1", port, timeout=10)
    try:
        yield session
    finally:
        await session.close()
        await asyncio.sleep(0)


async def names_of(session: GridFTPSession, folder: Path) -> list[str]:
    return sorted([entry.name async for batch in session.listing(str(folder)) for entry in batch])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("plain")
    return tmp_path


@pytest.mark.toolkit
class TestAgainstTheToolkit:
    @pytest.mark.parametrize("with_mlsc", [True, False], ids=["MLSC", "MLSD"])
    async def test_a_listing_has_every_name_as_it_is(
        self, tree: Path, toolkit_server_factory: Callable[..., ToolkitServer], with_mlsc: bool
    ) -> None:
        server = toolkit_server_factory(tree)
        async with opened(server.port) as session:
            if not with_mlsc:
                session.features = without(session.features, "MLSC")
            entries = {entry.name: entry async for batch in session.listing(str(tree)) for entry in batch}
        assert sorted(entries) == sorted([*NAMES, "folder", "link"])
        assert entries["plain"].size == 5
        assert entries["plain"].kind == "file"
        assert entries["folder"].is_directory
        assert entries["link"].link_target is not None
        assert entries["plain"].modified is not None

    async def test_many_listings_at_once_do_not_mix_without_mlsc(
        self, tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        for index in range(12):
            (tmp_path / f"folder{index}").mkdir()
            (tmp_path / f"folder{index}" / f"file{index}").touch()
        server = toolkit_server_factory(tmp_path)
        async with opened(server.port) as session:
            session.features = without(session.features, "MLSC")
            found = await asyncio.gather(*(names_of(session, tmp_path / f"folder{index}") for index in range(12)))
        assert found == [[f"file{index}"] for index in range(12)]

    async def test_a_long_listing_arrives_in_blocks_and_whole(
        self, tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        for index in range(5000):
            (tmp_path / f"entry-with-a-rather-long-name-{index:06d}").touch()
        server = toolkit_server_factory(tmp_path)
        async with opened(server.port) as session:
            batches = [batch async for batch in session.listing(str(tmp_path))]
        assert len(batches) > 1
        assert len({entry.name for batch in batches for entry in batch}) == 5000

    async def test_a_name_with_a_line_feed_is_seen_as_what_it_is(
        self, tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        (tmp_path / "two\nlines").touch()
        server = toolkit_server_factory(tmp_path)
        async with opened(server.port) as session:
            assert await names_of(session, tmp_path) == ["two\nlines"]
            with pytest.raises(FaultError) as caught:
                await session.stat(f"{tmp_path}/two\nlines")
        assert caught.value.fault.kind is Kind.INVALID_PATH_NAME
        assert not caught.value.fault.retryable

    async def test_folders_are_made_once_and_twice(
        self, tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        server = toolkit_server_factory(tmp_path)
        paths = [f"{tmp_path}/a", f"{tmp_path}/a/b", f"{tmp_path}/a/b/c"]
        async with opened(server.port) as session:
            await session.make_directories(paths)
            await session.make_directories(paths)
            assert (await session.stat(paths[-1])).is_directory
            with pytest.raises(FaultError) as caught:
                await session.make_directory(paths[0])
            assert caught.value.fault.kind is Kind.PATH_EXISTS
            await session.rename(paths[-1], f"{tmp_path}/a/d")
            faults = await session.remove(
                [(f"{tmp_path}/a", True), (f"{tmp_path}/a/d", True), (f"{tmp_path}/no", False)]
            )
        assert [fault and fault.kind for fault in faults] == [Kind.DIRECTORY_NOT_EMPTY, None, Kind.FILE_NOT_FOUND]
        assert (tmp_path / "a" / "b").is_dir()

    async def test_a_file_in_the_place_of_a_folder_is_reported(
        self, tree: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        server = toolkit_server_factory(tree)
        async with opened(server.port) as session:
            with pytest.raises(FaultError) as caught:
                await session.make_directories([f"{tree}/plain"])
            assert caught.value.fault.kind is Kind.NOT_A_DIRECTORY
            for operation in (session.stat(f"{tree}/none"), names_of(session, tree / "none")):
                with pytest.raises(FaultError) as caught:
                    await operation
                assert caught.value.fault.kind is Kind.FILE_NOT_FOUND

    async def test_a_name_beyond_ascii_never_reaches_a_server_that_would_strip_it(
        self, tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
    ) -> None:
        server = toolkit_server_factory(tmp_path)
        async with opened(server.port) as session:
            with pytest.raises(FaultError) as caught:
                await session.make_directory(f"{tmp_path}/xéy")
        assert caught.value.fault.kind is Kind.INVALID_PATH_NAME
        assert os.listdir(tmp_path) == []


async def serve(handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]) -> asyncio.Server:
    return await asyncio.start_server(handler, "127.0.0.1", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Kind.ENDPOINT_ERROR),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Kind.ENDPOINT_ERROR),
        (b"421 too many connections\r\n", Kind.ENDPOINT_TOO_BUSY),
        (b"", Kind.CONNECTION_BROKEN),
        (b"2" * 100_000, Kind.ENDPOINT_ERROR),
    ],
)
async def test_what_greets_wrongly_is_a_typed_fault(words: bytes, kind: Kind) -> None:
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        writer.close()

    server = await serve(handler)
    async with server:
        with pytest.raises(FaultError) as caught:
            await GridFTPSession.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5)
        assert caught.value.fault.kind is kind
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("greeting", [b"", b"220 hello\r\n"], ids=["before-greeting", "before-login"])
async def test_a_server_that_hangs_is_given_up_in_time(greeting: bytes) -> None:
    done = asyncio.Event()

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await done.wait()
        writer.close()

    server = await serve(handler)
    async with server:
        with pytest.raises(FaultError) as caught:
            await GridFTPSession.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout=0.2)
        done.set()
        await asyncio.sleep(0.01)
    assert caught.value.fault.kind is Kind.TIMEOUT


async def test_a_login_waits_for_nothing_before_all_of_it_is_sent() -> None:
    """The server greets only when it has heard everything: one round trip after that of the connection."""
    heard: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend([await reader.readline() for _ in range(7)])
        answers = [b"220 hello", b"331 go on", b"230 come in", b"211 no features", b'257 "/home"', b"200 I"]
        writer.write(b"\r\n".join([*answers, b"200 facts", b"200 markers", b""]))
        heard.append(await reader.readline())
        writer.close()

    server = await serve(handler)
    async with server:
        session = await GridFTPSession.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5)
        assert session.home == "/home"
        await session.close()
        await asyncio.sleep(0.01)
    assert [line.split()[0] for line in heard] == [
        b"USER",
        b"PASS",
        b"FEAT",
        b"PWD",
        b"TYPE",
        b"OPTS",
        b"OPTS",
        b"QUIT",
    ]


async def test_a_server_with_too_many_sessions_says_so_to_a_client_that_has_spoken_already(tmp_path: Path) -> None:
    with GridFtpServer(tmp_path, limits=ServerLimits(sessions=1)) as server:
        async with opened(server.port):
            for _ in range(20):
                with pytest.raises(FaultError) as caught:
                    await GridFTPSession.open("127.0.0.1", server.port, timeout=5)
                assert caught.value.fault.kind is Kind.ENDPOINT_TOO_BUSY


@pytest.mark.toolkit
async def test_the_toolkit_with_too_many_sessions_is_a_fault_of_the_session(
    tmp_path: Path, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    server = toolkit_server_factory(tmp_path, "-connections-max", "2")
    async with AsyncExitStack() as stack:

        async def open_three() -> None:
            for _ in range(3):
                await stack.enter_async_context(opened(server.port))

        with pytest.raises(FaultError) as caught:
            await open_three()
    assert caught.value.fault.kind is Kind.ENDPOINT_TOO_BUSY


async def test_a_refused_login_is_an_auth_fault() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            writer.write(b"530 Login incorrect.\r\n" if line[:4] in (b"USER", b"PASS") else b"530 Please log in.\r\n")
        writer.close()

    server = await serve(handler)
    async with server:
        with pytest.raises(FaultError) as caught:
            await GridFTPSession.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5)
        await asyncio.sleep(0.01)
    assert caught.value.fault.kind is Kind.AUTH


async def test_nobody_listening_is_connect_failed() -> None:
    with pytest.raises(FaultError) as caught:
        await GridFTPSession.open("127.0.0.1", free_port(), timeout=5)
    assert caught.value.fault.kind is Kind.CONNECT_FAILED
    assert socket.gethostname() not in str(caught.value)
