"""Two tasks that write one existing file at the same time: what stays is whole, and of one of the two.

Each task alone would write into the file that is there, because it is its owner's (docs/decisions/settlement.md). Two
writers in one file would mix their versions.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints import registry
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.slices import in_thread, status, work
from tests.conformance.tasks.test_names_of_all_octets import Place, places  # noqa: F401 (a fixture)
from tests.conformance.tasks.test_shares import _instance  # noqa: F401 (the fixture of the gate)
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.streamed_tasks import StreamedTask
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.integration.cast import submit
from transferapi.tasks.models import Task

SIZE = 24 << 20
FIRST, SECOND = b"1" * SIZE, b"2" * SIZE


@NEEDS_FTP_SERVERS
@NEEDS_SSHD
@pytest.mark.parametrize("destination", ["toolkit", "sftp", "vsftpd", "proftpd", "pure-ftpd"])
async def test_what_stays_is_whole(places: dict[str, Place], destination: str) -> None:  # noqa: F811
    one, other = places["own"], places[destination]
    data, there = one.new(), other.new()
    data.mkdir()
    there.mkdir()
    (data / "first").write_bytes(FIRST)
    (data / "second").write_bytes(SECOND)
    (there / "f").write_bytes(b"of its owner" * 1000)
    other.give()
    tasks = [
        StreamedTask(one.end, other.end, [(f"{one.path(data)}/{name}", f"{other.path(there)}/f", False)])
        for name in ("first", "second")
    ]
    for task in tasks:
        task.store.shared_place = True
    await asyncio.gather(*(task.run() for task in tasks))
    assert [task.store.status for task in tasks] == ["SUCCEEDED", "SUCCEEDED"]
    assert (there / "f").read_bytes() in (FIRST, SECOND)
    assert [path.name for path in there.iterdir()] == ["f"]


def endpoint(owner: User, name: str, port: int) -> Endpoint:
    return registry.create(owner, {"name": name, "public": True}, [ServerSpec("127.0.0.1", port, "ftp")])


@pytest.mark.toolkit
@pytest.mark.django_db(transaction=True)
def test_the_tasks_find_each_other(tmp_path: Path, serve: Callable[..., GridFtpServer]) -> None:
    alice, bob = (User.objects.create(username=name) for name in ("alice", "bob"))
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "first").write_bytes(FIRST)
    (here / "second").write_bytes(SECOND)
    (there / "f").write_bytes(b"of its owner" * 1000)
    hand_over(there, stop_at=Path(tempfile.gettempdir()))
    with ToolkitServer(tmp_path) as server:
        target = endpoint(alice, "target", server.port)
        port = serve(here).port
        tasks = [
            submit(owner, endpoint(owner, f"home-{owner.username}", port), target, (path, f"{there}/f"))
            for owner, path in ((alice, "/first"), (bob, "/second"))
        ]
        asyncio.run(_both(tasks))
    assert (there / "f").read_bytes() in (FIRST, SECOND)
    assert [path.name for path in there.iterdir()] == ["f"]


async def _both(tasks: list[Task]) -> None:
    await asyncio.gather(*map(work, tasks))
    assert [await asyncio.to_thread(in_thread, lambda task=task: status(task)) for task in tasks] == ["SUCCEEDED"] * 2
