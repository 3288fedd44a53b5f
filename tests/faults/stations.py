"""Servers of several kinds whose processes can be killed, stopped and counted while they serve."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.places import drop_to
from endpoints.gridftp.login import ANONYMOUS, Login
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ftp_servers import FtpServer
from tests.gridftp.ssh_grid import key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, unprivileged_account
from tests.waiting import children_of, descendants_of, is_alive

#: Seconds for the sessions of clients that are gone to end.
TIMEOUT = 2.0
_TIME_WAIT, _CLOSED, _LISTEN = "06", "07", "0A"


class Station(ABC):
    """One server that shows `root`."""

    #: One process has all clients: where it stands still, nobody is served.
    serves_all = False
    #: Its dialogue is encrypted: a step is a piece of it that arrives at once.
    opaque = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self._stopped: set[int] = set()

    @property
    @abstractmethod
    def port(self) -> int: ...

    @property
    def login(self) -> Login:
        return ANONYMOUS

    @abstractmethod
    def path(self, path: Path) -> bytes:
        """The name of this file for a client."""

    @abstractmethod
    def processes(self, client_port: int) -> list[int]:
        """Ids of the processes that serve the client at this port."""

    @abstractmethod
    def sessions(self) -> int:
        """Number of clients that are served, or whose sessions remain."""

    @abstractmethod
    async def start(self) -> None:
        """Start, or start again after it was killed; return once it answers."""

    @abstractmethod
    def end(self) -> None:
        """End the server with all of its sessions."""

    def kill(self, client_port: int) -> None:
        for pid in self.processes(client_port):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def freeze(self, client_port: int) -> None:
        for pid in self.processes(client_port):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._stopped.add(pid)

    def thaw(self) -> None:
        """Let all that were frozen go on."""
        for pid in self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()

    async def empty(self) -> int:
        """Wait a while for all sessions to end; how many did not."""
        for _ in range(int(TIMEOUT / 0.01)):
            if not self.sessions():
                return 0
            await asyncio.sleep(0.01)
        return self.sessions()


class ToolkitStation(Station):
    """The toolkit's: forks a process for each client. It shows the whole machine."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._server = ToolkitServer(root)

    @property
    def port(self) -> int:
        return self._server.port

    def path(self, path: Path) -> bytes:
        return os.fsencode(path)

    def processes(self, client_port: int) -> list[int]:
        inode = _inode(self.port, client_port)
        return [pid for pid in self._children() if inode in _sockets(pid)] if inode else []

    def sessions(self) -> int:
        return len(self._children())

    def _children(self) -> list[int]:
        assert self._server.process
        return [pid for pid in children_of(self._server.process.pid) if is_alive(pid)]

    async def start(self) -> None:
        if self._server.process is None:
            self._server.start()

    def end(self) -> None:
        self._server.stop()


class OwnStation(Station):
    """Ours: one process for all clients. It shows `root` only."""

    serves_all = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._port

    def path(self, path: Path) -> bytes:
        return b"/" + os.fsencode(path.relative_to(self.root))

    def processes(self, client_port: int) -> list[int]:
        return [self._process.pid] if self._process else []

    def kill(self, client_port: int) -> None:
        """It is seen to be dead when this returns, so that `start` starts another one."""
        super().kill(client_port)
        if self._process:
            self._process.wait(5)

    def sessions(self) -> int:
        return sum(
            local == self._port and state not in (_TIME_WAIT, _CLOSED, _LISTEN) and inode != "0"
            for local, _, state, inode in _connections()
        )

    async def start(self) -> None:
        if self._process and self._process.poll() is None:
            return
        account = unprivileged_account()
        words = drop_to(account, self.root, Path(sys.prefix)) if account else []
        words += [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(self.root)]
        self._process = spawn([*words, "--port", str(self._port)], log=subprocess.DEVNULL)
        async with asyncio.timeout(20):
            while not await _answers(self._port):  # noqa: ASYNC110 (another process, which only polling can observe)
                await asyncio.sleep(0.01)

    def end(self) -> None:
        if self._process:
            stop(self._process, signal.SIGKILL)
            self._process = None


class FtpStation(Station):
    """A plain FTP server, with a process or two for each client."""

    name = "vsftpd"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._server = FtpServer(self.name, root / f"server-{secrets.token_hex(4)}")
        self._server.data = root

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def login(self) -> Login:
        return self._server.login

    def path(self, path: Path) -> bytes:
        return os.fsencode(self._server.path(path))

    def processes(self, client_port: int) -> list[int]:
        assert self._server.process
        return _serving(self._server.process.pid, self.port, client_port)

    def sessions(self) -> int:
        assert self._server.process
        return sum(map(is_alive, descendants_of(self._server.process.pid)))

    async def start(self) -> None:
        if self._server.process is None:
            self._server.folder.mkdir(exist_ok=True)
            await asyncio.to_thread(self._server.__enter__)

    def end(self) -> None:
        if self._server.process:
            for pid in list(descendants_of(self._server.process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._server.__exit__()
            self._server.process = None


class ProftpdStation(FtpStation):
    name = "proftpd"


class PureFtpdStation(FtpStation):
    """It shows `root` only."""

    name = "pure-ftpd"


class SftpStation(Station):
    """OpenSSH's, with two processes or more for each client."""

    opaque = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._folder = root / f"server-{secrets.token_hex(4)}"
        self._folder.mkdir(mode=0o711)
        self._key = key_pair(self._folder)
        self._server = SshServer(self._folder, sftp_only=True, host_keys=("ed25519",))

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def username(self) -> str:
        return self._server.username

    @property
    def private_key(self) -> str:
        return self._key.read_text()

    @cached_property
    def fingerprint(self) -> str:
        return self._server.fingerprint()

    @cached_property
    def login(self) -> Login:
        return SftpLogin(SshAccount(self.username, parse_ssh_key(self.private_key).pem, self.fingerprint))

    def path(self, path: Path) -> bytes:
        return os.fsencode(path)

    def processes(self, client_port: int) -> list[int]:
        assert self._server.process
        return _serving(self._server.process.pid, self.port, client_port)

    def sessions(self) -> int:
        return sum(map(is_alive, self._server.sessions()))

    async def start(self) -> None:
        if self._server.process is None:
            self._server.authorize(self._key)
            await asyncio.to_thread(self._server.start)

    def end(self) -> None:
        self._server.stop()


KINDS: dict[str, type[Station]] = {
    "toolkit": ToolkitStation,
    "own": OwnStation,
    "vsftpd": FtpStation,
    "proftpd": ProftpdStation,
    "pure-ftpd": PureFtpdStation,
    "sftp": SftpStation,
}


def _serving(main: int, port: int, client_port: int) -> list[int]:
    """The processes below `main` that have the socket of this connection, and theirs."""
    inode = _inode(port, client_port)
    ours = [pid for pid in descendants_of(main) if inode and inode in _sockets(pid)]
    return list(dict.fromkeys([*ours, *(below for pid in ours for below in descendants_of(pid))]))


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        return await reader.read(3) == b"220"
    finally:
        writer.transport.abort()


def _connections() -> Iterator[tuple[int, int, str, str]]:
    """Local port, remote port, state and inode of every TCP connection over IPv4 (proc(5))."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        yield int(words[1].rpartition(":")[2], 16), int(words[2].rpartition(":")[2], 16), words[3], words[9]


def _inode(local: int, remote: int) -> str | None:
    """Inode of the server's socket of the connection between these ports."""
    return next((inode for one, two, _, inode in _connections() if (one, two) == (local, remote)), None)


def _sockets(pid: int) -> set[str]:
    """Inodes of the sockets that the process has open."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path).removeprefix("socket:[").removesuffix("]"))
    return found
