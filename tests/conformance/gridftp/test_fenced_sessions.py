"""Every way in which a slice opens a session: when its fence is closed, nothing leaves towards the server.

A line before each server counts the octets that come from this service.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Side
from endpoints.gridftp.ftp_tls.login import FtpTlsLogin
from endpoints.gridftp.login import ANONYMOUS, Login
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.gridftp.third_party.slots import FileEvent, FileSettled
from endpoints.gridftp.wire.fence import Fence
from endpoints.sessions.remote import open_writer
from endpoints.ssh.accounts.account_login import AccountLogin
from endpoints.ssh.connection import JumpHost, SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from endpoints.ssh.sshftp_login import SshLogin
from tests.conformance.gridftp.test_ftp_tls import certificate, key_of
from tests.engine_fakes.pool import end_pool
from tests.gridftp.authority import Authority
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, PASSWORD, USER, FtpServer
from tests.gridftp.grid import login_of
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.servers.counting_line import CountingLine
from transferapi.tasks.records import FileRow, TaskEndpoint, TaskSpec
from workers.session_factory import RealSessions
from workers.sessions.pool import Address, SessionKey, SessionPool
from workers.sessions.pooled_sessions import PooledSession
from workers.sessions.server_addresses import Place, ServersBySide

KINDS = [
    "ours",
    pytest.param("toolkit", marks=pytest.mark.toolkit),
    pytest.param("gsi", marks=pytest.mark.toolkit),
    pytest.param("ftps", marks=NEEDS_FTP_SERVERS),
    pytest.param("sshftp", marks=[pytest.mark.toolkit, NEEDS_SSHD]),
    pytest.param("account", marks=NEEDS_SSHD),
    pytest.param("jump", marks=NEEDS_SSHD),
    pytest.param("sftp", marks=NEEDS_SSHD),
]
LASTS = 3.5


@dataclass
class Scene:
    """A server of one kind, behind a line; and slices that use it, each with a fence and a clock."""

    folder: Path
    root: str
    line: CountingLine
    login: Login
    pool: SessionPool = field(default_factory=SessionPool)
    at: float = 0.0

    def fence(self) -> Fence:
        made = Fence(LASTS, lambda: self.at)
        made.extend(self.at)
        return made

    def sessions(self, fence: Fence | None = None) -> RealSessions:
        """The sessions of one slice of a task within this endpoint."""

        def session_key(side: Side, address: Address, place: Place) -> SessionKey:
            async def login() -> Login:
                return self.login

            return SessionKey(address, self.login.key, login)

        here = TaskEndpoint("1", "go#ep1")
        return RealSessions(
            TaskSpec("t", False, here, TaskEndpoint("2", "go#ep2"), {}, max_sessions=8),
            ServersBySide({side: [Place("127.0.0.1", self.line.port)] for side in (Side.SOURCE, Side.DESTINATION)}),
            self.pool,
            fence or self.fence(),
            session_key=session_key,
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
        )

    async def sleep(self) -> list[int]:
        """The machine sleeps for longer than a lease. Returns what had left before, when all of it has arrived."""
        said: list[int] | None = None
        while said != self.line.said:
            said = list(self.line.said)
            await asyncio.sleep(0.1)
        self.at += 60.0
        return said


@pytest.fixture(params=KINDS)
async def scene(
    request: pytest.FixtureRequest,
    grid_home: Path,
    authority: Authority,
    identity_of: Callable[..., CertificateFiles],
    gsi_server_factory: Callable[..., ToolkitServer],
) -> AsyncIterator[Scene]:
    folder = grid_home / f"fenced-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o755)
    with ExitStack() as running:
        kind = request.param
        if kind == "ours":
            made = Scene(folder, "", _line(running, running.enter_context(GridFtpServer(folder)).port), ANONYMOUS)
        elif kind == "toolkit":
            port = running.enter_context(ToolkitServer(folder)).port
            made = Scene(folder, str(folder), _line(running, port), ANONYMOUS)
        elif kind == "gsi":
            login: Login = login_of(identity_of("alice"), authority)
            made = Scene(folder, str(folder), _line(running, gsi_server_factory(folder).port), login)
        elif kind == "ftps":
            made = _ftps(running, folder)
        else:
            made = _ssh(running, kind, folder)
        for name in ("old", "kept"):
            (made.folder / name).write_bytes(b"old")
        hand_over(folder, stop_at=Path(tempfile.gettempdir()))
        yield made
        made.line.dead.clear()
        await end_pool(made.pool)


def _line(running: ExitStack, port: int) -> CountingLine:
    return running.enter_context(CountingLine(port))


def _ftps(running: ExitStack, folder: Path) -> Scene:
    pem = certificate(folder / "certificate", "localhost")
    server = running.enter_context(FtpServer("pure-ftpd", folder / "pure-ftpd", "-Y", "3", "-2", str(pem)))
    login = FtpTlsLogin("localhost", key_of(pem), username=USER, secret=PASSWORD.encode())
    return Scene(server.data, server.path(server.data), _line(running, server.port), login)


def _ssh(running: ExitStack, kind: str, folder: Path) -> Scene:
    key = key_pair(folder)
    place = folder / "sshd"
    place.mkdir(mode=0o711)
    kinds: dict[str, dict[str, Any]] = {
        "sftp": {"sftp_only": True},
        "account": {"profile": ""},
        "jump": {"profile": ""},
    }
    server = running.enter_context(SshServer(place, **kinds.get(kind, {})))
    server.authorize(key)
    pem = parse_ssh_key(key.read_text()).pem
    account = SshAccount(server.username, pem, server.fingerprint())
    line = _line(running, server.port)
    if kind == "sshftp":
        return Scene(folder, str(folder), line, SshLogin(server.username, pem, server.fingerprint()))
    if kind == "sftp":
        return Scene(folder, str(folder), line, SftpLogin(account))
    if kind == "account":
        return Scene(folder, str(folder), line, AccountLogin(account))

    async def resolve() -> list[str]:
        return ["127.0.0.1"]

    # Both are the same host here: the line is before the jump host, and all octets pass it twice.
    return Scene(folder, str(folder), line, AccountLogin(account, JumpHost(account, line.port, resolve)))


#: Each changes something at the server, or asks it for something.
ACTS: dict[str, Callable[[PooledSession, str], Awaitable[object]]] = {
    "remove": lambda session, root: session.remove([(f"{root}/old", False)]),
    "rename": lambda session, root: session.rename(f"{root}/old", f"{root}/kept"),
    "set_modified": lambda session, root: session.set_modified([(f"{root}/old", datetime(2001, 1, 1, tzinfo=UTC))]),
    "make_directories": lambda session, root: session.make_directories([f"{root}/new"]),
    "make_symlink": lambda session, root: session.make_symlink(f"{root}/old", f"{root}/new"),
    "stat": lambda session, root: session.stat(f"{root}/old"),
    "write": lambda session, root: open_writer(session.inner, f"{root}/old", 0, OctetBudget(1 << 20).share()),
}


async def test_no_request_leaves_a_session_whose_fence_is_closed(scene: Scene) -> None:
    for name, act in ACTS.items():
        sessions = scene.sessions()
        session = await sessions.session(Side.DESTINATION)
        assert (await session.stat(f"{scene.root}/old")).size == 3
        said = await scene.sleep()
        with pytest.raises(FaultError):
            await act(session, scene.root)
        assert not session.inner.usable
        assert scene.line.said == said, name
        await sessions.give_back(session)
        assert scene.pool.counts()[0] == 0, "a session that is fenced off is of no use to others"
    assert sorted(path.name for path in scene.folder.iterdir() if path.is_file() and path.name in ("old", "kept")) == [
        "kept",
        "old",
    ]
    assert (scene.folder / "old").read_bytes() == b"old"
    assert (scene.folder / "old").stat().st_mtime > 1_500_000_000
    assert not (scene.folder / "new").exists()


async def test_no_session_is_opened_behind_a_closed_fence(scene: Scene) -> None:
    sessions = scene.sessions()
    await scene.sleep()
    with pytest.raises(FaultError):
        await sessions.session(Side.DESTINATION)
    with pytest.raises(FaultError):
        await sessions.lane()
    assert scene.line.said == []


async def test_a_warm_session_is_behind_the_fence_of_the_slice_that_has_it(scene: Scene) -> None:
    fences = scene.fence(), scene.fence()
    first, second = (scene.sessions(fence) for fence in fences)
    warm = await first.session(Side.DESTINATION)
    await first.give_back(warm)
    fences[0].close()
    again = await second.session(Side.DESTINATION)
    assert again.inner is warm.inner
    await again.stat(f"{scene.root}/old")
    said = list(scene.line.said)
    fences[1].close()
    with pytest.raises(FaultError):
        await again.remove([(f"{scene.root}/old", False)])
    assert scene.line.said == said
    await second.give_back(again)


async def test_a_file_under_way_gets_nothing_more_and_is_not_ended_in_order(scene: Scene) -> None:
    sessions = scene.sessions()
    session = await sessions.session(Side.DESTINATION)
    with sessions.fence.in_force():
        writer = await open_writer(session.inner, f"{scene.root}/new", 0, OctetBudget(1 << 22).share())
    await writer.write(b"x" * 1000)
    said = await scene.sleep()

    async def go_on() -> None:
        await writer.write(b"y" * 1000)
        await writer.finish()

    with pytest.raises(FaultError):
        await go_on()
    await writer.close()
    session.inner.abort()
    assert scene.line.said == said
    assert b"y" not in ((scene.folder / "new").read_bytes() if (scene.folder / "new").exists() else b"")


async def test_a_lane_gives_its_files_back_and_no_command_leaves(scene: Scene) -> None:
    """Third party, and through this worker."""
    sessions = scene.sessions()
    with sessions.fence.in_force():
        lane = await sessions.lane()
        lane.use_streams(1)
        for number in range(2):
            if number:
                said = await scene.sleep()
            lane.feed(FileRow(number, 1, f"{scene.root}/old", f"{scene.root}/copy{number}", 3))
            events: list[FileEvent] = []
            while not events:
                events = [event for event in await lane.events() if hasattr(event, "tag")]
            assert isinstance(events[-1], FileSettled) is (number == 0)
        await lane.close()
    assert scene.line.said == said
    assert not lane.alive
    assert (scene.folder / "copy0").read_bytes() == b"old"
    assert not (scene.folder / "copy1").exists()


@pytest.mark.parametrize("scene", ["account"], indirect=True)
async def test_sessions_of_two_slices_in_one_ssh_connection(scene: Scene) -> None:
    """The fence of one breaks the connection for both, and the other slice opens another one."""
    fences = scene.fence(), scene.fence()
    first, second = [await scene.sessions(fence).session(Side.DESTINATION) for fence in fences]
    assert isinstance(first.inner, GridFTPSession)
    assert isinstance(second.inner, GridFTPSession)
    assert first.inner.connection.wire is second.inner.connection.wire
    fences[0].close()
    with pytest.raises(FaultError):
        await first.remove([(f"{scene.root}/old", False)])
    with pytest.raises(FaultError):
        await second.stat(f"{scene.root}/old")
    third = await scene.sessions(fences[1]).session(Side.DESTINATION)
    assert (await third.stat(f"{scene.root}/old")).size == 3
    third.inner.abort()
