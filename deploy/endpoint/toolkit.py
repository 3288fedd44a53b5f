"""The Grid Community Toolkit's `globus-gridftp-server`, anonymous or with GSI, as a child process of ours; usually on
loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.endpoint.authority import Identity
from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.errors import StartError
from deploy.stack.places import unprivileged_account

SERVER = "globus-gridftp-server"
CLIENT = "globus-url-copy"
LOOPBACK = "127.0.0.1"
START_SECONDS = 20
#: Somebody may take the port between our look and the server's bind.
PORT_TRIES = 5


def installed() -> bool:
    """Whether the toolkit's server and client are on this machine."""
    return server_program() is not None and shutil.which(CLIENT) is not None


def server_program() -> str | None:
    """Where the server is, if it is installed."""
    # Debian puts it into /usr/sbin, which ordinary users do not have on their PATH.
    return shutil.which(SERVER) or shutil.which(SERVER, path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has right now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class GsiFiles:
    """What a server with GSI needs: whom it trusts, who it is, and which subject is which account.

    Its own key must be readable by its owner only, and `certificates` by everybody (sessions run as their accounts).
    """

    certificates: Path
    host: Identity
    gridmap: Path

    def environment(self) -> dict[str, str]:
        return {
            "X509_CERT_DIR": str(self.certificates),
            "X509_USER_CERT": str(self.host.certificate),
            "X509_USER_KEY": str(self.host.key),
            "GRIDMAP": str(self.gridmap),
        }


def session_account() -> str:
    """The account that gridmaps of our servers name: an ordinary user's server can only run sessions as that user."""
    account = unprivileged_account()
    return account.pw_name if account else pwd.getpwuid(os.geteuid()).pw_name


def clean_environment() -> dict[str, str]:
    """Ours, without what points Grid programs at certificates of whoever runs us."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("X509_", "GRIDMAP", "MYPROXY_"))}


class ToolkitServer:
    """One server over the folder `root`; clients use the folder's full path (the server sees the whole machine).

    Started by root, sessions run as `nobody`: the folder must be open to that account (`hand_over` does it).
    `security` makes it a server with GSI, whose gridmap should name `session_account()`; else it is anonymous.
    `extra` are further options of the server, such as "-rp" and a path. `address` is the only one it listens on;
    `prefix` are words before its command that do not change its process number (`ip netns exec NAME`).
    """

    def __init__(
        self,
        root: Path,
        *extra: str,
        log: Path | None = None,
        port: int = 0,
        address: str = LOOPBACK,
        prefix: Sequence[str] = (),
        security: GsiFiles | None = None,
    ) -> None:
        self.root = root
        self.extra = extra
        self.log = log
        self.port = port
        self.address = address
        self.prefix = prefix
        self.security = security
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'gsiftp' if self.security else 'ftp'}://{self.address}:{self.port}"

    def start(self, *, timeout: float = START_SECONDS) -> None:
        """Start on a free port (or the given one), and wait for the banner. Raises StartError."""
        given = self.port
        for remaining in reversed(range(1 if given else PORT_TRIES)):
            self.port = given or free_port()
            self.process = spawn(self.command(), log=self.log, env=self._environment())
            try:
                return wait_ready(SERVER, self.process, self._greets, timeout=timeout, log=self.log)
            except StartError:
                self.stop()
                if not remaining:
                    raise
        return None

    def command(self) -> list[str]:
        program = server_program()
        if program is None:
            raise StartError(SERVER, "not installed: sudo deploy/endpoint/install-toolkit.sh")
        words = [*self.prefix, program, "-c", "/dev/null", "-p", str(self.port)]
        words += ["-control-interface", self.address, "-data-interface", self.address]
        account = unprivileged_account()
        if account:
            words += ["-allow-disabled-login", "-home-dir", "/"]
        if not self.security:
            words += ["-aa", *(["-anonymous-user", account.pw_name] if account else [])]
        return [*words, *self.extra]

    def _environment(self) -> dict[str, str]:
        return clean_environment() | (self.security.environment() if self.security else {})

    def _greets(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.address, self.port), timeout=2) as connection,
        ):
            return connection.recv(3) == b"220"
        return False

    def stop(self) -> None:
        """End the server with all of its sessions: SIGTERM would wait for them."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            stop(self.process, signal.SIGKILL)
            self.process = None

    def __enter__(self) -> ToolkitServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def hand_over(root: Path, *, stop_at: Path) -> None:
    """As root: give the folder with its contents to the account that sessions run as, and open the way to it.

    Folders between `stop_at` and `root` that are ours become passable; nothing above `stop_at` is touched.
    """
    account = unprivileged_account()
    if account is None:
        return
    for folder in root.resolve().parents:
        if folder == stop_at.resolve():
            break
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o111)
    for path in (root, *root.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
