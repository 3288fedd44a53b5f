"""Tasks from and to vsftpd, ProFTPD and Pure-FTPd: every arrival by its checksum."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NAMES, NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.streamed_tasks import StreamedTask, tree
from workers.sessions.pool import THIRD_PARTY, Address

pytestmark = NEEDS_FTP_SERVERS
VERIFIED = {"verify_checksum": True, "preserve_timestamp": True}
#: Stands for another host: its address differs from that of the servers.
ELSEWHERE = "127.0.0.2"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FtpServer]]:
    folder = tmp_path_factory.mktemp("ftp")
    made = {name: FtpServer(name, folder / name) for name in NAMES}
    made["elsewhere"] = FtpServer("proftpd", folder / "elsewhere", address=ELSEWHERE)
    with made["vsftpd"], made["proftpd"], made["pure-ftpd"], made["elsewhere"]:
        yield made


def fill(server: FtpServer, name: str) -> Path:
    """A tree on this server, with names and sizes of all kinds."""
    folder = server.data / name
    (folder / "deep" / "er").mkdir(parents=True)
    for number in range(8):
        (folder / f"small {number}").write_bytes(os.urandom(number * 1000))
    (folder / "deep" / "er" / "Grüße -> & *").write_bytes(os.urandom(300_000))
    (folder / "deep" / ".hidden").write_bytes(b"hidden")
    (folder / "deep" / "large").write_bytes(os.urandom(5_000_001))
    os.utime(folder / "deep" / "large", (1_600_000_000, 1_600_000_000))
    server.give()
    return folder


def paths(server: FtpServer, folder: Path) -> str:
    return server.path(folder) + "/"


async def check(task: StreamedTask, source: Path, there: Path) -> None:
    await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(source)
    assert (there / "deep" / "large").stat().st_mtime == 1_600_000_000


@pytest.mark.parametrize(
    ("source", "destination"), [("vsftpd", "proftpd"), ("proftpd", "pure-ftpd"), ("pure-ftpd", "vsftpd")]
)
async def test_servers_on_one_host_take_each_others_data_connections(
    servers: dict[str, FtpServer], source: str, destination: str
) -> None:
    one, other = servers[source], servers[destination]
    data, there = fill(one, f"to-{destination}"), other.data / f"from-{source}"
    task = StreamedTask(one.end, other.end, [(paths(one, data), paths(other, there), True)], VERIFIED)
    await check(task, data, there)
    assert not task.pool.refuses(THIRD_PARTY, Address(one.address, one.port), Address(other.address, other.port))


@pytest.mark.parametrize("name", ["vsftpd", "pure-ftpd"])
async def test_servers_that_refuse_foreign_addresses_are_asked_once(servers: dict[str, FtpServer], name: str) -> None:
    one, other = servers[name], servers["elsewhere"]
    data, there = fill(one, "away"), other.data / f"away-{name}"
    task = StreamedTask(one.end, other.end, [(paths(one, data), paths(other, there), True)], VERIFIED)
    await check(task, data, there)
    assert task.pool.refuses(THIRD_PARTY, Address(one.address, one.port), Address(other.address, other.port))


@pytest.mark.parametrize("name", NAMES)
async def test_a_tree_goes_to_a_gridftp_server_and_back(
    servers: dict[str, FtpServer], tmp_path: Path, name: str
) -> None:
    server = servers[name]
    data, back = fill(server, "grid"), server.data / "back"
    with GridFtpServer(tmp_path) as gridftp:
        end = End(gridftp.port)
        await check(
            StreamedTask(server.end, end, [(paths(server, data), "/grid/", True)], VERIFIED), data, tmp_path / "grid"
        )
        await check(StreamedTask(end, server.end, [("/grid/", paths(server, back), True)], VERIFIED), data, back)
