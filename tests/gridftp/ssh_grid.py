"""Keys and logins over ssh, and a relay between client and server that fails on demand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import paramiko
import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError
from endpoints.gridftp.login import Login
from endpoints.ssh.channel import CommandBridge
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sshftp_login import SshLogin
from tests.gridftp import sshd
from tests.gridftp.grid import open_session
from tests.gridftp.sshd import SshServer, make_key
from tests.waiting import eventually

#: In CI they fail where there is no sshd, so that nobody is fooled.
NEEDS_SSHD = pytest.mark.skipif(not sshd.installed() and os.environ.get("CI") != "true", reason="sshd is not installed")


def key_pair(folder: Path, kind: str = "ed25519", *options: str, name: str = "key") -> Path:
    return make_key(folder / name, kind, "", *options)


def only(server: SshServer, **programs: str) -> None:
    """The account's PATH has the tools of the system, but no python except these: name=path."""
    folder = server.home / "bin"
    folder.mkdir(exist_ok=True)
    for name in ("sh", "dd", "tail", "rm", "rmdir", "sleep", "cat"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, path in programs.items():
        (folder / name.replace("_", ".")).symlink_to(path)
    server.set_profile(f"export PATH={folder}")


def ssh_login(server: SshServer, key: Path, *, host_key: str | None = None, username: str = "") -> SshLogin:
    """Login as the server's account with this key, which need not be authorized."""
    subject = server.fingerprint() if host_key is None else host_key
    return SshLogin(username or server.username, parse_ssh_key(key.read_text()).pem, subject)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_pair(tmp_path)


@pytest.fixture
def server(ssh_server_factory: Callable[..., SshServer], key: Path) -> SshServer:
    started = ssh_server_factory()
    started.authorize(key)
    return started


@pytest.fixture
def login(server: SshServer, key: Path) -> SshLogin:
    return ssh_login(server, key)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """No thread, whatever a test has met."""
    yield
    eventually(lambda: not threads())


def threads() -> list[threading.Thread]:
    """Running threads of ssh bridges and transports."""
    return [thread for thread in threading.enumerate() if isinstance(thread, CommandBridge | paramiko.Transport)]


@asynccontextmanager
async def opened(port: int, login: Login) -> AsyncIterator[GridFTPSession]:
    session = await open_session(port, login)
    try:
        yield session
    finally:
        await session.close()


async def refusal(port: int, login: Login, *, timeout: float = 20.0) -> Fault:
    with pytest.raises(FaultError) as caught:
        await open_session(port, login, timeout=timeout)
    return caught.value.fault


async def until(condition: Callable[[], bool]) -> None:
    """`eventually`, without holding up what must happen for it."""
    await asyncio.to_thread(eventually, condition)


class Relay:
    """Stands before a server, and stops passing its words on after so many octets: hangs, or hangs up.

    delay: seconds before each piece of the server's words.
    """

    def __init__(self, port: int, *, after: int = 1 << 40, hang: bool = False, delay: float = 0.0) -> None:
        self._target = port
        self._delay = delay
        self._after = after
        self._hang = hang
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            upwards = asyncio.ensure_future(_copy(reader, there_writer))
            await self._downwards(there_reader, writer)
            if self._hang:
                await upwards
            upwards.cancel()
        finally:
            for one in (writer, there_writer):
                one.close()

    async def _downwards(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._after
        while left and (data := await reader.read(left)):
            left -= len(data)
            await asyncio.sleep(self._delay)
            writer.write(data)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
