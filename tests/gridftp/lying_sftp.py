"""An SFTP server (asyncssh's) that lies, stalls or refuses as a test wants it; it serves the whole file system."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh

from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import fingerprint_of, parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ends import End
from tests.gridftp.ssh_grid import key_pair


class LyingSftp(asyncssh.SFTPServer):
    """Honest by itself: tests override single methods."""


class _Door(asyncssh.SSHServer):
    """Lets everybody in who has a key."""

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return True


@asynccontextmanager
async def lying(folder: Path, kind: type[asyncssh.SFTPServer] = LyingSftp) -> AsyncIterator[End]:
    """folder: for keys."""
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    key = key_pair(folder, name=f"key-{os.urandom(4).hex()}")
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=_Door, server_host_keys=[host_key], sftp_factory=kind, allow_scp=False
    )
    try:
        pinned = fingerprint_of(host_key.public_data)
        yield End(server.get_port(), SftpLogin(SshAccount("alice", parse_ssh_key(key.read_text()).pem, pinned)))
    finally:
        server.close()
        await server.wait_closed()


def full_disk() -> Any:
    """The answer to statvfs@openssh.com of a full disk."""
    return asyncssh.SFTPVFSAttrs(bsize=4096, frsize=4096, blocks=1000, bfree=0, bavail=0, files=1000, ffree=9, favail=9)


async def never() -> Any:
    """No answer."""
    await asyncio.Event().wait()
