"""One file between this service and servers of each kind: read and written whole, from an offset, and refused."""

from __future__ import annotations

import random
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.login import ANONYMOUS, Login
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.streams.data_stream import DataStream
from tests.gridftp.authority import Authority
from tests.gridftp.grid import login_of, open_session
from tests.gridftp.ssh_grid import NEEDS_SSHD, key, login, server
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, hand_over

__all__ = ["key", "login", "server"]

SIZE = 1_500_000
CONTENT = random.Random(7).randbytes(SIZE)
KINDS = [
    "ours",
    pytest.param("toolkit", marks=pytest.mark.toolkit),
    pytest.param("gsi", marks=pytest.mark.toolkit),
    pytest.param("ssh", marks=[pytest.mark.toolkit, NEEDS_SSHD]),
]


@dataclass
class Place:
    """A folder and a login to the server over it. root: the path of the folder on the server."""

    folder: Path
    root: str
    port: int
    login: Login

    @property
    def encrypts(self) -> bool:
        return self.login.protected

    @asynccontextmanager
    async def session(self) -> AsyncIterator[GridFTPSession]:
        session = await open_session(self.port, self.login)
        try:
            yield session
        finally:
            await session.close()

    async def read(self, name: str, offset: int = 0, *, encrypt: bool = False) -> bytes:
        async with self.session() as session:
            stream = await DataStream.open(session, "RETR", f"{self.root}/{name}", offset, encrypt=encrypt)
            found = []
            try:
                while data := await stream.read():
                    found.append(data)
            finally:
                await stream.close()
            return b"".join(found)

    async def write(self, name: str, *pieces: bytes, offset: int = 0, encrypt: bool = False) -> None:
        async with self.session() as session:
            stream = await DataStream.open(session, "STOR", f"{self.root}/{name}", offset, encrypt=encrypt)
            try:
                for piece in pieces:
                    await stream.send(piece)
                await stream.end()
            finally:
                await stream.close()


@pytest.fixture
def folder(grid_home: Path) -> Path:
    """Not below pytest's own folder, which each start of pytest by the same user closes to others."""
    served = grid_home / f"served-{secrets.token_hex(4)}"
    served.mkdir(mode=0o755)
    (served / "file").write_bytes(CONTENT)
    (served / "empty").write_bytes(b"")
    (served / "folder").mkdir()
    return served


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
    gsi_server_factory: Callable[..., ToolkitServer],
    authority: Authority,
    identity_of: Callable[..., CertificateFiles],
) -> Place:
    if request.param == "ours":
        return Place(folder, "", serve().port, ANONYMOUS)
    if request.param == "toolkit":
        return Place(folder, str(folder), toolkit_server_factory(folder).port, ANONYMOUS)
    if request.param == "gsi":
        return Place(folder, str(folder), gsi_server_factory(folder).port, login_of(identity_of("alice"), authority))
    hand_over(folder, stop_at=Path(tempfile.gettempdir()))
    sshd: SshServer = request.getfixturevalue("server")
    return Place(folder, str(folder), sshd.port, request.getfixturevalue("login"))


async def test_a_file_is_read_whole_and_from_an_offset(place: Place) -> None:
    assert await place.read("file") == CONTENT
    assert await place.read("file", SIZE - 10) == CONTENT[-10:]
    assert await place.read("empty") == b""
    if place.encrypts:
        assert await place.read("file", encrypt=True) == CONTENT


async def test_a_file_is_written_whole_and_goes_on_from_an_offset(place: Place) -> None:
    await place.write("new", CONTENT[:1000], CONTENT[1000:5000], encrypt=place.encrypts)
    await place.write("new", CONTENT[5000:], offset=5000)
    assert (place.folder / "new").read_bytes() == CONTENT
    await place.write("nothing")
    assert (place.folder / "nothing").read_bytes() == b""
    await place.write("new", b"short")
    assert (place.folder / "new").read_bytes() == b"short"


@pytest.mark.parametrize("name", ["missing", "folder"])
async def test_what_cannot_be_read_is_a_fault_before_the_first_octet(place: Place, name: str) -> None:
    with pytest.raises(FaultError) as caught:
        await place.read(name)
    assert caught.value.fault.kind in (Kind.FILE_NOT_FOUND, Kind.IS_A_DIRECTORY, Kind.ENDPOINT_ERROR)


async def test_what_cannot_be_written_is_a_fault(place: Place) -> None:
    with pytest.raises(FaultError):
        await place.write("folder", b"x")
    with pytest.raises(FaultError):
        await place.write("missing/file", b"x")
    assert (place.folder / "folder").is_dir()


async def test_an_endpoint_that_demands_encryption_gets_nothing_in_clear(place: Place) -> None:
    if place.encrypts:
        pytest.skip("this server encrypts")
    with pytest.raises(FaultError) as caught:
        await place.read("file", encrypt=True)
    assert caught.value.fault.kind is Kind.UNSUPPORTED
