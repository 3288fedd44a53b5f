"""The client's checksums, modification times and symlinks: the same on the toolkit's server and on ours."""

from __future__ import annotations

import asyncio
import hashlib
import os
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from endpoints.gridftp import client
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import STALL_TIMEOUT
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.toolkit import ToolkitServer

ANSWERS = {b"USER": b"331 go on\r\n", b"PASS": b"230 come in\r\n", b"TYPE": b"200 fine\r\n"}
WHEN = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Site:
    """A server over `folder`. The toolkit's clients name a file by its full path, ours by that in the folder."""

    kind: str
    port: int
    folder: Path

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.kind == "toolkit" else f"/{name}"

    @asynccontextmanager
    async def session(self) -> AsyncIterator[GridFTPSession]:
        session = await GridFTPSession.open("127.0.0.1", self.port, timeout=10)
        try:
            yield session
        finally:
            await session.close()
            await asyncio.sleep(0)


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def site(
    request: pytest.FixtureRequest,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Site:
    (folder / "file").write_bytes(b"some content")
    (folder / "other").write_bytes(b"other content")
    (folder / "folder").mkdir()
    if request.param == "own":
        return Site("own", serve().port, folder)
    return Site("toolkit", toolkit_server_factory(folder).port, folder)


async def fault_of(site: Site, operation: Callable[[GridFTPSession], object]) -> Fault:
    """The fault, after which the session is still of use."""
    async with site.session() as session:
        with pytest.raises(FaultError) as caught:
            await operation(session)  # type: ignore[misc]
        await session.stat(site.path("file"))
        return caught.value.fault


async def names_in(session: GridFTPSession, path: str) -> list[str]:
    return [entry.name async for batch in session.listing(path) for entry in batch]


# ---- login


async def test_a_login_before_the_greeting_is_taken_every_time(site: Site) -> None:
    sessions = await asyncio.gather(*(GridFTPSession.open("127.0.0.1", site.port, timeout=10) for _ in range(10)))
    for session in sessions:
        assert {"MLST", "MLSC", "CKSM", "SPAS", "UTF8"} <= session.features.names
        assert session.round_trip is not None
        await session.close()


# ---- checksums


async def test_a_file_is_opened_for_reading_and_nothing_moves(site: Site) -> None:
    (site.folder / "empty").touch()
    async with site.session() as session:
        for name in ("file", "empty"):
            await session.check_readable(site.path(name))
    fault = await fault_of(site, lambda session: session.check_readable(site.path("none")))
    assert fault.kind is Kind.FILE_NOT_FOUND


async def test_every_announced_checksum_is_that_of_the_content(site: Site) -> None:
    async with site.session() as session:
        assert set(session.algorithms) == {"MD5", "ADLER32", "SHA1", "SHA256", "SHA512"}
        for algorithm in session.algorithms:
            if algorithm == "ADLER32":
                expected = f"{zlib.adler32(b'some content'):08x}"
            else:
                expected = hashlib.new(algorithm.lower(), b"some content").hexdigest()
            assert await session.checksum(site.path("file"), algorithm) == expected


async def test_many_checksums_at_once_do_not_mix(site: Site) -> None:
    names = ["file", "other"] * 20
    async with site.session() as session:
        values = await asyncio.gather(*(session.checksum(site.path(name), "MD5") for name in names))
    wanted = {name: hashlib.md5((site.folder / name).read_bytes()).hexdigest() for name in set(names)}
    assert values == [wanted[name] for name in names]


@pytest.mark.parametrize(
    ("name", "algorithm", "kind"),
    [("none", "MD5", Kind.FILE_NOT_FOUND), ("folder", "MD5", Kind.IS_A_DIRECTORY)],
)
async def test_what_has_no_checksum_is_a_fault_of_that_file(site: Site, name: str, algorithm: str, kind: Kind) -> None:
    fault = await fault_of(site, lambda session: session.checksum(site.path(name), algorithm))
    assert fault.kind is kind
    assert fault.scope is FaultScope.FILE


async def test_an_unknown_checksum_is_a_fault_of_that_file(site: Site) -> None:
    fault = await fault_of(site, lambda session: session.checksum(site.path("file"), "CRC7"))
    assert fault.scope is FaultScope.FILE


@pytest.mark.parametrize("site", [pytest.param("toolkit", marks=pytest.mark.toolkit)], indirect=True)
async def test_a_server_at_a_long_checksum_shows_that_it_is_alive(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CHECKSUM_MARKERS", 1)
    os.truncate(site.folder / "file", 1024**3)
    markers: list[Reply] = []
    async with site.session() as session:
        path = session.encode_path(site.path("file"))
        reply = await session.connection.request("CKSM", b"SHA512 0 -1 " + path, markers.append)
    assert reply.code == 213
    assert {marker.code for marker in markers} == {113}


async def test_a_server_that_gives_no_signs_of_life_is_given_the_time_that_it_takes() -> None:
    """It refuses OPTS CKSM."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            writer.write(
                b"213 %b\r\n" % (b"00FF" * 8) if line.startswith(b"CKSM") else ANSWERS.get(line[:4], b"500 what?\r\n")
            )
        writer.close()

    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    async with server:
        session = await GridFTPSession.open("127.0.0.1", server.sockets[0].getsockname()[1], timeout=5)
        assert session.connection.stall_timeout == STALL_TIMEOUT
        assert await session.checksum("/file", "MD5") == "00ff" * 8
        assert session.connection.stall_timeout == client.UNMARKED_TIMEOUT
        await session.close()
        await asyncio.sleep(0.01)


# ---- modification times


async def test_modification_times_are_set_to_the_second(site: Site) -> None:
    paths = [site.path(name) for name in ("file", "none", "other", "folder")]
    async with site.session() as session:
        faults = await session.set_modified([(path, WHEN) for path in paths])
        assert (await session.stat(paths[0])).modified == WHEN
    assert [fault and fault.kind for fault in faults] == [None, Kind.FILE_NOT_FOUND, None, None]
    assert [(site.folder / name).stat().st_mtime for name in ("file", "other", "folder")] == [WHEN.timestamp()] * 3


async def test_a_time_before_1970_is_set_or_refused_but_never_another(site: Site) -> None:
    async with site.session() as session:
        [fault] = await session.set_modified([(site.path("file"), datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC))])
        seen = (site.folder / "file").stat().st_mtime
    assert fault or seen == datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC).timestamp()


# ---- symlinks


@pytest.mark.parametrize("target", ["file", "folder", "./file", "folder/../file"])
async def test_a_symlink_leads_to_its_target_and_may_be_made_twice(site: Site, target: str) -> None:
    async with site.session() as session:
        for _ in range(2):
            await session.make_symlink(target, site.path("link"))
        entry = await session.stat(site.path("link"))
    assert (site.folder / "link").is_symlink()
    assert (site.folder / "link").resolve() == (site.folder / target).resolve()
    assert entry.link_target is not None


async def test_a_relative_target_counts_from_where_the_link_is(site: Site) -> None:
    async with site.session() as session:
        for _ in range(2):
            await session.make_symlink("../file", site.path("folder/link"))
    assert (site.folder / "folder" / "link").resolve() == (site.folder / "file").resolve()


async def test_many_symlinks_at_once_do_not_mix(site: Site) -> None:
    async with site.session() as session:
        await asyncio.gather(
            *(session.make_symlink("file" if n % 2 else "other", site.path(f"link{n}")) for n in range(40))
        )
    for n in range(40):
        assert (site.folder / f"link{n}").resolve().name == ("file" if n % 2 else "other")


@pytest.mark.parametrize("place", ["other", "folder", "link"])
async def test_what_else_is_there_stays_and_is_reported(site: Site, place: str) -> None:
    (site.folder / "link").symlink_to("other")
    fault = await fault_of(site, lambda session: session.make_symlink("file", site.path(place)))
    assert fault.kind is Kind.PATH_EXISTS
    assert (site.folder / "link").resolve().name == "other"
    assert (site.folder / "other").read_bytes() == b"other content"


async def test_a_symlink_in_a_folder_that_is_not_there_is_reported(site: Site) -> None:
    fault = await fault_of(site, lambda session: session.make_symlink("file", site.path("none/link")))
    assert fault.kind is Kind.FILE_NOT_FOUND


@pytest.mark.parametrize("site", ["own"], indirect=True)
async def test_a_dangling_symlink_is_made_with_its_own_text(site: Site) -> None:
    async with site.session() as session:
        for _ in range(2):
            await session.make_symlink("../../none", site.path("link"))
        assert (await session.stat("/link")).link_target == "../../none"
    assert os.readlink(site.folder / "link") == "../../none"


@pytest.mark.parametrize("site", [pytest.param("toolkit", marks=pytest.mark.toolkit)], indirect=True)
async def test_the_toolkit_makes_no_symlink_to_what_is_not_there(site: Site) -> None:
    fault = await fault_of(site, lambda session: session.make_symlink("none", site.path("link")))
    assert fault.kind is Kind.FILE_NOT_FOUND
    assert not (site.folder / "link").is_symlink()


@pytest.mark.parametrize("site", ["own"], indirect=True)
@pytest.mark.parametrize("target", ["/", "/etc", "..", "folder/../..", "/etc/passwd", "../outside"])
async def test_a_symlink_out_of_the_served_folder_is_made_and_leads_nowhere(site: Site, target: str) -> None:
    (site.folder.parent / "outside").write_bytes(b"not served")
    async with site.session() as session:
        await session.make_symlink(target, "/link")
        assert (await session.stat("/link")).kind == "link"
        for operation in (
            session.checksum("/link", "MD5"),
            session.make_directory("/link/new"),
            session.make_symlink("/x", "/link/new"),
            session.rename("/file", "/link/file"),
            names_in(session, "/link"),
        ):
            with pytest.raises(FaultError) as caught:
                await operation
            assert caught.value.fault.kind in (Kind.PERMISSION_DENIED, Kind.NOT_A_DIRECTORY)
        [fault] = await session.set_modified([("/link", WHEN)])
        assert fault
    assert (site.folder.parent / "outside").read_bytes() == b"not served"
    assert not list(site.folder.parent.glob("new"))


@pytest.mark.parametrize("target", ["a\r\nDELE file", "", "x" * 5000])
async def test_a_target_that_cannot_be_one_is_a_fault_of_that_link(site: Site, target: str) -> None:
    fault = await fault_of(site, lambda session: session.make_symlink(target, site.path("link")))
    assert fault.scope is FaultScope.FILE
    assert not (site.folder / "link").is_symlink()
    assert (site.folder / "file").exists()
