"""OpenSSH's `sshd` as a child process on loopback, in front of the toolkit's GridFTP server (sshftp).

It has its own host keys, configuration and list of authorized keys, and uses none of the machine's. The account is that
of this process. Its sessions find their `.globus/sshftp` in its folder, not in their home.
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
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from deploy.endpoint.toolkit import server_program
from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.errors import StartError
from deploy.stack.free_ports import free_port
from tests import kept_keys
from tests.waiting import descendants_of

from .toolkit import LOOPBACK, PORT_TRIES, START_SECONDS, hand_over, unprivileged_account

SSHD = "sshd"
KEYGEN_SECONDS = 30
#: An account with a home of its own: its profile runs first, as that of a login shell would. SFTP by its own server.
_ACCOUNT = 'export HOME={home} && cd {home} && . ./.profile && eval "$SSH_ORIGINAL_COMMAND"'
#: For a server that offers SFTP and nothing else.
_SFTP_ONLY = ("internal-sftp", "Subsystem sftp internal-sftp")
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
#: The folder in which root's sshd confines its unprivileged part; Debian's service creates it at boot.
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
ForceCommand {command}
{subsystem}
{extra}
"""


def installed() -> bool:
    """Whether OpenSSH's server and the toolkit's are on this machine."""
    return _sshd() is not None and shutil.which("ssh-keygen") is not None and server_program() is not None


def _sshd() -> str | None:
    return server_program(SSHD)


def make_key(path: Path, kind: str, passphrase: str = "", *options: str) -> Path:
    """Create a key pair at `path` and `path`.pub; without a passphrase it is one of `kept_keys`."""
    if not passphrase:
        path.touch(0o600)
        path.write_bytes(kept_keys.ssh_key(kind, *options))
        # As in an OpenSSH file, or in PEM where the options say so.
        load = load_ssh_private_key if b"OPENSSH" in path.read_bytes() else load_pem_private_key
        public = load(path.read_bytes(), None).public_key()
        line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        path.with_name(f"{path.name}.pub").write_text(f"{line} waybill test\n")
        return path
    words = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "waybill test", "-f", str(path), *options]
    subprocess.run(words, check=True, timeout=KEYGEN_SECONDS, stdin=subprocess.DEVNULL, capture_output=True)
    return path


def fingerprint(path: Path) -> str:
    """A fingerprint as `ssh-keygen -lf` prints it: "SHA256:..."."""
    words = ["ssh-keygen", "-lf", str(path)]
    done = subprocess.run(words, check=True, timeout=KEYGEN_SECONDS, capture_output=True, text=True)
    return done.stdout.split()[1]


class SshServer:
    """One sshd with all its files in `folder`, which must be a new one.

    sshftp: set up the toolkit's server for ssh (`.globus/sshftp`). trusting: with a folder of authorities; without one
    the server accepts no key for its data channels, as after `enable-sshftp`. sftp_only: SFTP, and no commands.
    profile: an account on which nothing is set up, with these lines of shell in its profile.
    extra: lines of sshd_config.
    """

    def __init__(
        self,
        folder: Path,
        *extra: str,
        sshftp: bool = True,
        trusting: bool = True,
        sftp_only: bool = False,
        profile: str | None = None,
        host_keys: Sequence[str] = HOST_KEYS,
        address: str = LOOPBACK,
    ) -> None:
        self.folder = folder
        self.extra = extra
        self.sshftp = sshftp
        self.trusting = trusting
        self.sftp_only = sftp_only
        self.profile = profile
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
        return f"{'ssh' if self.profile is not None else 'sftp' if self.sftp_only else 'sshftp'}://{self.address}:{self.port}"

    def fingerprint(self, kind: str = "ed25519") -> str:
        """The fingerprint of one of its host keys."""
        return fingerprint(self.host_keys[kind])

    def authorize(self, key: Path) -> None:
        """Authorize the owner of this key pair."""
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
        if self.profile is not None:
            self.set_profile(self.profile)
        elif self.sshftp and not self.sftp_only:
            script = self.home / ".globus" / "sshftp"
            script.write_text(f"#!/bin/sh\n{shlex.join(self._server_words(program))}\n")
            script.chmod(0o755)
        if account:
            hand_over(self.home, stop_at=Path(tempfile.gettempdir()))

    def _server_words(self, program: str) -> list[str]:
        """The command of the server's sessions, as an unprivileged account where this is root. It protects data
        channels only where it has a folder of authorities, even an empty one.
        """
        if self.trusting:
            self.trust()
        words = ["exec", "env", f"X509_CERT_DIR={self.trusted}"]
        if account := unprivileged_account():
            words += ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        return [*words, program, "-c", "/dev/null", "-ssh"]

    def trust(self) -> None:
        """Create the empty folder of authorities; sessions that begin from now on use it."""
        self.trusted.mkdir(exist_ok=True)

    def _configure(self) -> Path:
        config = self.folder / "sshd_config"
        keys = "\n".join(f"HostKey {path}" for path in self.host_keys.values())
        command, subsystem = _SFTP_ONLY if self.sftp_only else (self._shell(), "")
        values = {"folder": self.folder, "address": self.address, "port": self.port}
        values |= {"command": command, "subsystem": subsystem}
        config.write_text(_CONFIG.format(host_keys=keys, extra="\n".join(self.extra), **values))
        return config

    def _shell(self) -> str:
        if self.profile is not None:
            return _ACCOUNT.format(home=self.home)
        return f'cd {self.home} && eval "$SSH_ORIGINAL_COMMAND"'

    def set_profile(self, text: str) -> None:
        """Set the lines that the account's shell runs first, from the next session on."""
        (self.home / ".profile").write_text(text + "\n")

    def _greets(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.address, self.port), timeout=2) as connection,
        ):
            return connection.recv(4) == b"SSH-"
        return False

    def sessions(self) -> list[int]:
        """The pids of its sessions, with all processes that they have started."""
        return list(descendants_of(self.process.pid)) if self.process else []

    def kill_sessions(self) -> None:
        """Kill all sessions, as a power failure would. New ones may begin."""
        for number in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def stop(self) -> None:
        """Kill it with all of its sessions, which have process groups of their own."""
        if self.process is not None:
            self.kill_sessions()
            stop(self.process, signal.SIGTERM)
            self.process = None

    def __enter__(self) -> SshServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
