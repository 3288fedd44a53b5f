"""OpenSSH's `sshd` as a child process of ours on loopback, in front of the toolkit's GridFTP server (sshftp).

It has host keys, a configuration and a list of authorized keys of its own, and touches none of the machine's; the
account is the one that we run as. Its sessions find their `.globus/sshftp` in our folder instead of their home.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.errors import StartError
from deploy.stack.places import unprivileged_account

from .toolkit import LOOPBACK, PORT_TRIES, START_SECONDS, free_port, hand_over, server_program

SSHD = "sshd"
KEYGEN_SECONDS = 30
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
#: Where root's sshd locks its unprivileged half in; Debian's service makes it at boot.
SEPARATION_FOLDER = Path("/run/sshd")

_CONFIG = """ListenAddress {address}:{port}
{host_keys}
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
MaxStartups 200
LogLevel VERBOSE
ForceCommand cd {home} && eval "$SSH_ORIGINAL_COMMAND"
{extra}
"""


def installed() -> bool:
    """Whether OpenSSH's server and the toolkit's are on this machine."""
    return _sshd() is not None and shutil.which("ssh-keygen") is not None and server_program() is not None


def _sshd() -> str | None:
    return shutil.which(SSHD) or shutil.which(SSHD, path="/usr/sbin:/usr/local/sbin")


def make_key(path: Path, kind: str, passphrase: str = "", *options: str) -> Path:
    """A new key pair at `path` and `path`.pub."""
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "waybill test", "-f", str(path), *options]
    subprocess.run(words, check=True, timeout=KEYGEN_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
    return path


def fingerprint(path: Path) -> str:
    """As `ssh-keygen -lf` prints it: "SHA256:..."."""
    words = ["ssh-keygen", "-lf", str(path)]
    done = subprocess.run(words, check=True, timeout=KEYGEN_SECONDS, capture_output=True, text=True)
    return done.stdout.split()[1]


class SshServer:
    """One sshd with all that belongs to it in `folder`, which must be a new one.

    sshftp: set the toolkit's server up for ssh (`.globus/sshftp`). trusting: with a folder of authorities, without
    which it takes no key for its data channels; after `enable-sshftp` there is none. extra: lines of sshd_config.
    """

    def __init__(
        self,
        folder: Path,
        *extra: str,
        sshftp: bool = True,
        trusting: bool = True,
        host_keys: Sequence[str] = HOST_KEYS,
        address: str = LOOPBACK,
    ) -> None:
        self.folder = folder
        self.extra = extra
        self.sshftp = sshftp
        self.trusting = trusting
        self.address = address
        self.port = 0
        self.username = pwd.getpwuid(os.geteuid()).pw_name
        self.log = folder / "sshd.log"
        self.home = folder / "home"
        self.trusted = self.home / ".globus" / "certificates"
        self.host_keys = {kind: folder / f"host_{kind}" for kind in host_keys}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sshftp://{self.address}:{self.port}"

    def fingerprint(self, kind: str = "ed25519") -> str:
        """Of one of its host keys."""
        return fingerprint(self.host_keys[kind])

    def authorize(self, key: Path) -> None:
        """Let the owner of this key pair in."""
        public = key.with_name(key.name + ".pub").read_text()
        with (self.folder / "authorized_keys").open("a") as file:
            file.write(public)

    def start(self, *, timeout: float = START_SECONDS) -> None:
        """Start on a free port and wait for the banner. Raises StartError."""
        self._prepare()
        for remaining in reversed(range(PORT_TRIES)):
            self.port = free_port()
            config = self._configure()
            self.process = spawn([_sshd() or SSHD, "-D", "-e", "-f", config], log=self.log)
            try:
                return wait_ready(SSHD, self.process, self._greets, timeout=timeout, log=self.log)
            except StartError:
                self.stop()
                if not remaining:
                    raise
        return None

    def _prepare(self) -> None:
        program = server_program()
        if _sshd() is None or program is None:
            raise StartError(SSHD, "not installed: sudo deploy/endpoint/install-toolkit.sh")
        account = unprivileged_account()
        if account:
            SEPARATION_FOLDER.mkdir(mode=0o755, exist_ok=True)
        for kind, path in self.host_keys.items():
            if not path.exists():
                make_key(path, kind, "", *(("-b", "2048") if kind == "rsa" else ()))
        (self.home / ".globus").mkdir(parents=True, exist_ok=True)
        (self.folder / "authorized_keys").touch()
        if self.sshftp:
            script = self.home / ".globus" / "sshftp"
            script.write_text(f"#!/bin/sh\n{shlex.join(self._server_words(program))}\n")
            script.chmod(0o755)
        if account:
            hand_over(self.home, stop_at=Path(tempfile.gettempdir()))

    def _server_words(self, program: str) -> list[str]:
        """The server does not run as root, who is nobody in particular to it; and it protects data channels only where
        it has a folder of authorities, be it an empty one."""
        if self.trusting:
            self.trust()
        words = ["exec", "env", f"X509_CERT_DIR={self.trusted}"]
        if account := unprivileged_account():
            words += ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        return [*words, program, "-c", "/dev/null", "-ssh"]

    def trust(self) -> None:
        """Make the empty folder of authorities; sessions that begin from now on find it."""
        self.trusted.mkdir(exist_ok=True)

    def _configure(self) -> Path:
        config = self.folder / "sshd_config"
        keys = "\n".join(f"HostKey {path}" for path in self.host_keys.values())
        values = {"folder": self.folder, "home": self.home, "address": self.address, "port": self.port}
        config.write_text(_CONFIG.format(host_keys=keys, extra="\n".join(self.extra), **values))
        return config

    def _greets(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.address, self.port), timeout=2) as connection,
        ):
            return connection.recv(4) == b"SSH-"
        return False

    def sessions(self) -> list[int]:
        """Process numbers of its sessions, with all that they have started."""
        return list(_descendants(self.process.pid)) if self.process else []

    def kill_sessions(self) -> None:
        """End them as a power cut would; new ones may come."""
        for number in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def stop(self) -> None:
        """End it with all of its sessions; they have process groups of their own."""
        if self.process is not None:
            self.kill_sessions()
            stop(self.process, signal.SIGTERM)
            self.process = None

    def __enter__(self) -> SshServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _descendants(number: int) -> Iterator[int]:
    """Children of a process, theirs, and so on (proc(5), /proc/PID/task/TID/children)."""
    try:
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    except OSError:
        return
    for child in map(int, children):
        yield child
        yield from _descendants(child)
