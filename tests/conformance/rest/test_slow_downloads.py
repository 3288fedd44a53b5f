"""A client that takes a file slowly gets all of it: silence is that of the server, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints import registry
from endpoints.files import downloads
from endpoints.files.uploads import Upload, UploadPart
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from endpoints.sessions import opening
from endpoints.sessions.remote import RemoteSession
from identity.models import User
from tests.conformance.rest.test_operations import alice, loopback
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.odd_ftp import OddFtp, OddSession
from tests.gridftp.toolkit import ToolkitServer

pytestmark = pytest.mark.django_db
__all__ = ["alice", "loopback"]

#: Seconds of silence after which a connection is given up here; and how long a client, or a user, takes for a file.
LIMIT, SECONDS = 0.5, 2.0
#: More than the buffers of TCP, of the server and of this service hold.
CONTENT = os.urandom(1 << 20) * 24


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control connection gives up after so little silence. It listens only while a call of the session runs."""
    known = opening.open_session

    async def open_session(*words: object) -> RemoteSession:
        session = await known(*words)  # type: ignore[arg-type]
        assert isinstance(session, GridFTPSession)
        connection = session.connection
        connection.stall_timeout = LIMIT
        if connection._watch:
            connection._watch.cancel()
        connection._watch_later()
        return session

    monkeypatch.setattr(opening, "open_session", open_session)


def read_slowly(user: User, path: str) -> bytes:
    with downloads.open_file(user, "place", path) as download:
        download.begin(0, download.entry.size)
        read = b""
        for piece in download:
            read += piece
            time.sleep(SECONDS * len(piece) / len(CONTENT))
        return read


def write_slowly(user: User, path: str) -> None:
    def body() -> Iterator[bytes]:
        for at in range(0, len(CONTENT), 1 << 20):
            yield CONTENT[at : at + (1 << 20)]
            time.sleep(SECONDS * (1 << 20) / len(CONTENT))

    part = UploadPart(0, len(CONTENT), len(CONTENT))
    assert Upload(user, "place", path).store(part, body(), replace=True)


@pytest.fixture(params=["ours", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def folder_of_a_grid_server(
    request: pytest.FixtureRequest,
    alice: User,
    loopback: None,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> tuple[Path, str]:
    """The folder, and its path on the endpoint alice#place."""
    port = serve().port if request.param == "ours" else toolkit_server_factory(folder).port
    registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", port, "ftp")])
    return folder, "" if request.param == "ours" else str(folder)


def test_a_slow_reader_gets_the_whole_file(
    folder_of_a_grid_server: tuple[Path, str], short_limit: None, alice: User
) -> None:
    folder, root = folder_of_a_grid_server
    (folder / "large").write_bytes(CONTENT)
    (folder / "large").chmod(0o644)
    assert read_slowly(alice, f"{root}/large") == CONTENT


def test_a_slow_writer_writes_the_whole_file(
    folder_of_a_grid_server: tuple[Path, str], short_limit: None, alice: User
) -> None:
    folder, root = folder_of_a_grid_server
    write_slowly(alice, f"{root}/large")
    assert (folder / "large").read_bytes() == CONTENT


def test_a_reader_that_pauses_for_longer_than_the_limit_goes_on(
    folder_of_a_grid_server: tuple[Path, str], short_limit: None, alice: User
) -> None:
    folder, root = folder_of_a_grid_server
    (folder / "large").write_bytes(CONTENT)
    (folder / "large").chmod(0o644)
    with downloads.open_file(alice, "place", f"{root}/large") as download:
        download.begin(0, download.entry.size)
        pieces = iter(download)
        read = next(pieces)
        time.sleep(3 * LIMIT)
        assert read + b"".join(pieces) == CONTENT


@NEEDS_FTP_SERVERS
def test_so_it_is_on_plain_ftp(alice: User, loopback: None, short_limit: None, tmp_path: Path) -> None:
    with FtpServer("vsftpd", tmp_path) as server:
        (server.data / "large").write_bytes(CONTENT)
        server.give()
        registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", server.port, "ftp")])
        assert read_slowly(alice, server.path(server.data / "large")) == CONTENT
        write_slowly(alice, server.path(server.data / "new"))
        assert (server.data / "new").read_bytes() == CONTENT


class ForgetsRest(OddFtp):
    """Accepts REST, and sends each file from its beginning."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        return "350 ok" if verb == "REST" else None


@pytest.mark.parametrize("kind", [OddFtp, ForgetsRest])
@pytest.mark.parametrize(("first", "length"), [(200_000, 300_000), (200_000, 1000), (400_000, 1)])
def test_a_range_of_a_file_is_right_also_where_the_server_sends_whole_files_only(
    alice: User, loopback: None, tmp_path: Path, kind: type[OddFtp], first: int, length: int
) -> None:
    """A browser that continues would else put the beginning behind what it has."""
    content = os.urandom(500_000)
    (tmp_path / "file").write_bytes(content)
    with kind(tmp_path) as server:
        registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", server.port, "ftp")])
        with downloads.open_file(alice, "place", "/file") as download:
            download.begin(first, length)
            assert b"".join(download) == content[first : first + length]
