"""MyProxy's own server as a child process: it stores credentials that users upload, and is an online CA."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.endpoint import foreground
from deploy.endpoint.authority import CertificateFiles, replace_file
from deploy.endpoint.toolkit import MYPROXY_SERVER, clean_environment, server_program
from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.errors import StartError
from deploy.stack.free_ports import free_port
from tests.gridftp.authority import Authority, write_gridmap

from .toolkit import LOOPBACK, PORT_TRIES

START_SECONDS = 20
CLIENT_SECONDS = 30
#: The name of the service that the server uses with PAM; see pam.d(5).
PAM_SERVICE = "waybill-test-myproxy"

_POLICY = """authorized_retrievers "*"
default_retrievers "*"
accepted_credentials "*"
authorized_renewers "*"
default_renewers "none"
authorized_key_retrievers "*"
default_key_retrievers "none"
"""
#: A wrong password is refused as pam_unix does it; pam_exec alone would say "System error".
_PAM = """auth [success=1 default=ignore] pam_exec.so quiet expose_authtok {check}
auth requisite pam_deny.so
auth required pam_permit.so
account required pam_permit.so
"""
_CHECK = """#!/bin/sh
grep -qxF -- "$PAM_USER:$(cat)" '{passwords}'
"""


def installed() -> bool:
    return server_program(MYPROXY_SERVER) is not None and shutil.which("myproxy-logon") is not None


class MyProxyServer:
    """One server, with its files in `folder` (created if missing, private).

    `host` is its certificate. With `accounts` (user name -> password) it is an online CA as well: a user who
    authenticates by PAM as `name` gets a certificate for `authority.user_subject(name)`. Only this server sees the PAM
    service (by a mount namespace): nothing in /etc changes. Where user namespaces are allowed it needs no privilege.
    """

    def __init__(
        self,
        folder: Path,
        authority: Authority,
        host: CertificateFiles,
        *,
        accounts: Mapping[str, str] | None = None,
        address: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        self.folder = folder
        self.authority = authority
        self.host = host
        self.accounts = dict(accounts or {})
        self.address = address
        self.port = port
        self.log = folder / "log"
        self.pid_file = folder / "pid"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, timeout: float = START_SECONDS) -> None:
        """Start on a free port (or the given one). Raises StartError."""
        given = self.port
        self._write_files()
        for remaining in reversed(range(1 if given else PORT_TRIES)):
            self.port = given or free_port()
            self.pid_file.unlink(missing_ok=True)
            self.process = spawn(self.command(), log=self.log, env=self._environment())
            try:
                return wait_ready(MYPROXY_SERVER, self.process, self._accepts, timeout=timeout, log=self.log)
            except StartError:
                self.stop()
                if not remaining:
                    raise
        return None

    def _write_files(self) -> None:
        for name in ("", "store", "issued"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        lines = [_POLICY, f"cert_dir {self.authority.certificates}\n"]
        if self.accounts:
            lines += self._online_ca()
        replace_file(self.folder / "config", "".join(lines).encode(), 0o600)

    def _online_ca(self) -> list[str]:
        passwords = "".join(f"{name}:{password}\n" for name, password in self.accounts.items())
        replace_file(self.folder / "passwords", passwords.encode(), 0o600)
        check = self.folder / "check"
        replace_file(check, _CHECK.format(passwords=self.folder / "passwords").encode(), 0o700)
        (self.folder / "pam.d").mkdir(exist_ok=True)
        replace_file(self.folder / "pam.d" / PAM_SERVICE, _PAM.format(check=check).encode())
        subjects = {self.authority.user_subject(name): name for name in self.accounts}
        write_gridmap(self.folder / "subjects", subjects)
        return [
            f"certificate_issuer_cert {self.authority.ca_certificate}\n",
            f"certificate_issuer_key {self.authority.ca_key}\n",
            f"certificate_serialfile {self.folder / 'serial'}\n",
            f"certificate_out_dir {self.folder / 'issued'}\n",
            f"certificate_mapfile {self.folder / 'subjects'}\n",
            f'max_cert_lifetime 24\npam "sufficient"\npam_id "{PAM_SERVICE}"\n',
        ]

    def command(self) -> list[str]:
        server = server_program(MYPROXY_SERVER)
        if server is None:
            raise StartError(MYPROXY_SERVER, "not installed: sudo deploy/endpoint/install-toolkit.sh")
        words = [server, "-l", self.address, "-p", str(self.port), "-c", str(self.folder / "config")]
        words += ["-s", str(self.folder / "store"), "-P", str(self.pid_file)]
        if self.accounts:
            words = [*with_pam(self.folder / "pam.d"), *words]
        return [sys.executable, foreground.__file__, *words]

    def _environment(self) -> dict[str, str]:
        return clean_environment() | {
            "X509_CERT_DIR": str(self.authority.certificates),
            "X509_USER_CERT": str(self.host.certificate),
            "X509_USER_KEY": str(self.host.key),
        }

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), timeout=2):
            return self.pid_file.exists()  # the server writes it after it listens
        return False

    def keep(self, user_name: str, passphrase: str, identity: CertificateFiles, *, hours: float = 12) -> None:
        """Upload a proxy of `identity` to the server, as `myproxy-init` does. Raises StartError where that fails."""
        with tempfile.TemporaryDirectory(prefix="waybill-myproxy-") as folder:
            environment = self.client_environment() | {
                "X509_USER_CERT": str(identity.certificate),
                "X509_USER_KEY": str(identity.key),
                "X509_USER_PROXY": str(Path(folder) / "proxy"),
                "TMPDIR": folder,
            }
            words = ["myproxy-init", "-s", self.address, "-p", str(self.port), "-l", user_name, "-S"]
            words += ["-c", f"{hours:g}", "-t", f"{hours:g}"]
            run_client(words, passphrase, environment)

    def logon(self, user_name: str, passphrase: str, to: Path, *, hours: float = 1) -> Path:
        """Get a credential by `myproxy-logon` into the file `to` (proxy layout); for tests without our client."""
        words = ["myproxy-logon", "-s", self.address, "-p", str(self.port), "-l", user_name, "-S"]
        run_client([*words, "-t", f"{hours:g}", "-o", str(to)], passphrase, self.client_environment())
        return to

    def client_environment(self) -> dict[str, str]:
        """Variables for MyProxy's own clients: they look up the name of 127.0.0.1, and need the expected subject."""
        certificates = str(self.authority.certificates)
        return clean_environment() | {"X509_CERT_DIR": certificates, "MYPROXY_SERVER_DN": self.host.subject}

    def stop(self) -> None:
        """End the server with all of its sessions."""
        if self.process is not None:
            stop(self.process)
            self.process = None

    def __enter__(self) -> MyProxyServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def run_client(words: list[str], passphrase: str, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        words, input=f"{passphrase}\n".encode(), capture_output=True, env=environment, timeout=CLIENT_SECONDS
    )
    if done.returncode:
        raise StartError(words[0], (done.stderr + done.stdout).decode(errors="replace").strip())


def with_pam(folder: Path) -> list[str]:
    """The words before a command that give it `folder` as /etc/pam.d."""
    script = 'mount --bind "$1" /etc/pam.d && shift && exec "$@"'
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", script, "sh", str(folder)]


def can_show_pam() -> bool:
    """Whether this account may give a server a PAM service of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*with_pam(Path(folder)), "true"], capture_output=True, timeout=CLIENT_SECONDS)
    return done.returncode == 0
