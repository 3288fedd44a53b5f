"""The servers of the tests side by side: the toolkit's, ours, OpenSSH's SFTP, vsftpd, ProFTPD and Pure-FTPd."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from endpoints.gridftp.server import GridFtpServer
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NAMES as FTP_NAMES
from tests.gridftp.ftp_servers import FtpServer
from tests.gridftp.ssh_grid import key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, hand_over

NAMES = ("toolkit", "ours", "sftp", *FTP_NAMES)


@dataclass(frozen=True)
class Served:
    """A folder that a server serves. path: of something below `data`, as users of the server name it."""

    end: End
    data: Path
    path: Callable[[Path], str]

    def give(self) -> None:
        """Give what a test has made to the account of the server's sessions."""
        hand_over(self.data, stop_at=Path(tempfile.gettempdir()))


@contextmanager
def six_servers(folder: Path) -> Iterator[dict[str, Served]]:
    """All of them, each over a folder of its own below this one."""
    with ExitStack() as stack:
        yield {name: started(name, folder / name, stack) for name in NAMES}


def started(name: str, folder: Path, stack: ExitStack) -> Served:
    """The server of this name over a new folder below this one; `stack` stops it."""
    if name in FTP_NAMES:
        server = stack.enter_context(FtpServer(name, folder))
        return Served(server.end, server.data, server.path)
    data = folder / "data"
    data.mkdir(parents=True)
    if name == "ours":
        own = stack.enter_context(GridFtpServer(data))
        return Served(End(own.port), data, lambda path: f"/{path.relative_to(data)}")
    if name == "toolkit":
        hand_over(folder, stop_at=Path(tempfile.gettempdir()))
        toolkit = stack.enter_context(ToolkitServer(data))
        return Served(End(toolkit.port), data, str)
    (folder / "sshd").mkdir()
    key = key_pair(folder)
    ssh = stack.enter_context(SshServer(folder / "sshd", sftp_only=True))
    ssh.authorize(key)
    account = SshAccount(ssh.username, parse_ssh_key(key.read_text()).pem, ssh.fingerprint())
    return Served(End(ssh.port, SftpLogin(account)), data, str)
