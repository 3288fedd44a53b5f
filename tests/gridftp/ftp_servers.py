"""vsftpd, ProFTPD and Pure-FTPd as child processes on loopback: plain FTP servers, with all their files in one folder.

`tests/install-ftp-servers.sh .ftp-servers` gets them. Anonymous users of vsftpd, and a user of the other two with a
password (`USER`, `PASSWORD`), may read and write `data`.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pytest

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from endpoints.gridftp.login import ANONYMOUS, Login, PasswordLogin
from tests.gridftp.ends import End
from tests.gridftp.toolkit import hand_over, unprivileged_account
from transferapi.config import CHECKOUT

FOLDER = Path(os.environ.get("FTP_SERVERS", CHECKOUT / ".ftp-servers"))
USER, PASSWORD = "alice", "correct-horse"
START_SECONDS = 20.0
NAMES = ("vsftpd", "proftpd", "pure-ftpd")

_VSFTPD = """listen=YES
listen_address={address}
listen_port={port}
background=NO
anonymous_enable=YES
local_enable=NO
no_anon_password=YES
anon_root={data}
ftp_username={user}
run_as_launching_user=YES
write_enable=YES
anon_upload_enable=YES
anon_mkdir_write_enable=YES
anon_other_write_enable=YES
anon_world_readable_only=NO
allow_writeable_chroot=YES
anon_umask=022
mdtm_write=YES
seccomp_sandbox=NO
xferlog_enable=NO
secure_chroot_dir={empty}
"""
_PROFTPD = """ServerType standalone
ServerName test
UseIPv6 off
DefaultAddress {address}
Port {port}
ModulePath {modules}
PidFile {folder}/pid
ScoreboardFile {folder}/scoreboard
SystemLog {folder}/system.log
DelayTable {folder}/delay
User {user}
Group {group}
AuthPAM off
AuthOrder mod_auth_file.c
AuthUserFile {folder}/users
RequireValidShell off
UseReverseDNS off
TransferLog none
WtmpLog off
Umask 022
AllowOverwrite on
AllowStoreRestart on
AllowRetrieveRestart on
MaxInstances 60
"""


def program(name: str) -> str | None:
    """The path of a server, unpacked or installed."""
    unpacked = FOLDER / "usr" / "sbin" / name
    return str(unpacked) if unpacked.exists() else shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


NEEDS_FTP_SERVERS = pytest.mark.skipif(
    not all(map(program, NAMES)) and os.environ.get("CI") != "true",
    reason="FTP servers are missing: tests/install-ftp-servers.sh .ftp-servers",
)


class FtpServer:
    """One server. name: one of NAMES. address: on which it listens. extra: lines of its configuration, or options."""

    def __init__(self, name: str, folder: Path, *extra: str, address: str = "127.0.0.1") -> None:
        self.name = name
        self.folder = folder
        self.extra = extra
        self.address = address
        self.data = folder / "data"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def login(self) -> Login:
        return ANONYMOUS if self.name == "vsftpd" else PasswordLogin(USER, PASSWORD.encode())

    @property
    def end(self) -> End:
        return End(self.port, self.login, self.address)

    def path(self, path: Path) -> str:
        """A path below `data`, as users of the server name it."""
        return str(path) if self.name != "pure-ftpd" else f"/{path.relative_to(self.data)}"

    def give(self) -> None:
        """Give what a test has made to the account of the server's sessions."""
        hand_over(self.folder, stop_at=Path(tempfile.gettempdir()))

    def __enter__(self) -> Self:
        self.data.mkdir(parents=True, exist_ok=True)
        (self.folder / "empty").mkdir(exist_ok=True)
        self.port = free_port()
        words = {"vsftpd": self._vsftpd, "proftpd": self._proftpd, "pure-ftpd": self._pureftpd}[self.name]()
        self.process = spawn(words, log=self.folder / "log")
        wait_ready(self.name, self.process, self._greets, timeout=START_SECONDS, log=self.folder / "log")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            stop(self.process, signal.SIGTERM)

    def _greets(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.address, self.port), timeout=2) as connection,
        ):
            return connection.recv(4)[:3] == b"220"
        return False

    def _account(self) -> tuple[int, int]:
        account = unprivileged_account()
        return (account.pw_uid, account.pw_gid) if account else (os.geteuid(), os.getegid())

    def _vsftpd(self) -> list[str | Path]:
        config = self.folder / "vsftpd.conf"
        values = {"address": self.address, "port": self.port, "data": self.data, "empty": self.folder / "empty"}
        values["user"] = pwd.getpwuid(os.geteuid()).pw_name
        config.write_text(_VSFTPD.format(**values) + "\n".join(self.extra) + "\n")
        return [program(self.name) or self.name, config]

    def _proftpd(self) -> list[str | Path]:
        uid, gid = self._account()
        users = self.folder / "users"
        hashed = subprocess.run(
            ["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
        users.write_text(f"{USER}:{hashed}:{uid}:{gid}::{self.data}:/bin/sh\n")
        users.chmod(0o600)
        config = self.folder / "proftpd.conf"
        values = {
            "address": self.address, "port": self.port, "folder": self.folder,
            "modules": FOLDER / "usr" / "lib" / "proftpd",
            "user": pwd.getpwuid(uid).pw_name, "group": grp.getgrgid(gid).gr_name,
        }  # fmt: skip
        config.write_text(_PROFTPD.format(**values) + "\n".join(self.extra) + "\n")
        self.give()
        os.chown(users, os.geteuid(), os.getegid())
        return [program(self.name) or self.name, "-n", "-q", "-c", config]

    def _pureftpd(self) -> list[str | Path]:
        if os.geteuid() != 0:
            pytest.skip("the pure-ftpd of Debian lets nobody in without root, for chroot(2)")
        uid, gid = self._account()
        users = self.folder / "users"
        # pure-pw itself would hash the password by Argon2, which costs each login a second of processor time.
        words = ["openssl", "passwd", "-6", "-stdin"]
        hashed = subprocess.run(words, input=PASSWORD, check=True, timeout=10, capture_output=True, text=True).stdout
        users.write_text(f"{USER}:{hashed.strip()}:{uid}:{gid}::{self.data}/./::::::::::::\n")
        pure_pw = FOLDER / "usr" / "bin" / "pure-pw"
        words = [str(pure_pw) if pure_pw.exists() else "pure-pw", "mkdb", f"{self.folder}/users.pdb", "-f", str(users)]
        subprocess.run(words, check=True, timeout=10, capture_output=True)
        self.give()
        options = ["-S", f"{self.address},{self.port}", "-l", f"puredb:{self.folder}/users.pdb", "-E", "-A", "-H"]
        options += ["-u", "1", "-c", "60", "-C", "60", "-U", "133:022", "-g", f"{self.folder}/pid", *self.extra]
        return [program(self.name) or self.name, *options]
