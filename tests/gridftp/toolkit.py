"""The Grid Community Toolkit's `globus-gridftp-server`, anonymous or with GSI, as a child process on loopback."""

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

from deploy.endpoint.authority import CertificateFiles
from deploy.endpoint.toolkit import SERVER, clean_environment, server_program
from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.errors import StartError
from deploy.stack.free_ports import free_port

CLIENT = "globus-url-copy"
LOOPBACK = "127.0.0.1"
START_SECONDS = 20
#: Another process may take the port between our check and the server's bind.
PORT_TRIES = 5
#: Processes of other programs run as this account, too.
UNPRIVILEGED = "nobody"


def installed() -> bool:
    """Whether the toolkit's server and client are on this machine."""
    return server_program() is not None and shutil.which(CLIENT) is not None


@dataclass(frozen=True)
class GsiFiles:
    """The files of a server with GSI: the authorities that it trusts, its own certificate, and its gridmap.

    Only its owner may read its key; everybody must be able to read `certificates` (sessions run as their accounts).
    """

    certificates: Path
    host: CertificateFiles
    gridmap: Path

    def environment(self) -> dict[str, str]:
        return {
            "X509_CERT_DIR": str(self.certificates),
            "X509_USER_CERT": str(self.host.certificate),
            "X509_USER_KEY": str(self.host.key),
            "GRIDMAP": str(self.gridmap),
        }


def unprivileged_account() -> pwd.struct_passwd | None:
    """The account of the servers that tests start as root; None if this is not root. It owns nothing of value."""
    return pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None


def session_account() -> str:
    """The account in the gridmaps of our servers: a server of an ordinary user can run sessions as that user only."""
    account = unprivileged_account()
    return account.pw_name if account else pwd.getpwuid(os.geteuid()).pw_name


class ToolkitServer:
    """One server over the folder `root`; clients use the folder's full path (the server serves the whole machine).

    Where root starts it, sessions run as `nobody`: the folder must be open to that account (`hand_over` does it).
    `security` makes it a server with GSI, whose gridmap should name `session_account()`; else it is anonymous.
    `extra` are further options of the server, such as "-rp" and a path. It listens on `address` only.
    `prefix` are words before its command that do not change its pid (`ip netns exec NAME`).
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
        """Kill the server with all of its sessions: after SIGTERM it would wait for them."""
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
    """Give the folder with its contents to the account of the sessions, and open the path to it. This needs root.

    Our folders between `stop_at` and `root` become passable; nothing above `stop_at` is changed.
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
