"""The ssh server of the shell in this process, over the test database, and the OpenSSH client that talks to it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from identity import ssh_keys
from identity.models import User
from identity.ssh_public_keys import UNRESTRICTED, KeyRestrictions
from transferapi.shell.server import host_key
from transferapi.shell.server.bounds import ShellBounds
from transferapi.shell.server.listener import Listener

HOST = "127.0.0.1"


@dataclass
class ShellServer:
    """folder: for the keys of users."""

    listener: Listener
    folder: Path
    options: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.listener.port

    def add_key(self, user: User, restrictions: KeyRestrictions = UNRESTRICTED, name: str = "") -> Path:
        """Make a key that signs in as this user; its file."""
        file = self.folder / (name or user.username)
        private = host_key.new_private_key()
        host_key.write_new(file, private)
        ssh_keys.add(user, self.public_key(file), restrictions=restrictions)
        return file

    @staticmethod
    def public_key(file: Path) -> str:
        key = paramiko.Ed25519Key(filename=str(file))
        return f"{key.get_name()} {key.get_base64()}"

    def command(self, *words: str, user: str = "alice", key: str = "", options: tuple[str, ...] = ()) -> list[str]:
        """The command line of OpenSSH. words: the remote command."""
        return [
            *("ssh", "-F", "none", "-p", str(self.port), "-i", str(self.folder / (key or user))),
            *("-o", f"UserKnownHostsFile={self.folder / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes"),
            *("-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", *options, "-o", "LogLevel=ERROR"),
            f"{user}@{HOST}",
            *words,
        ]

    def run(
        self,
        *words: str,
        input: bytes = b"",  # noqa: A002 - as subprocess names it
        user: str = "alice",
        key: str = "",
        options: tuple[str, ...] = (),
        environ: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        command = self.command(*words, user=user, key=key, options=options)
        return subprocess.run(
            command, input=input, capture_output=True, timeout=60, check=False, env=os.environ | (environ or {})
        )

    def client(self, user: str = "alice", key: str = "") -> paramiko.Transport:
        """A connection that has signed in, for what OpenSSH does not do."""
        transport = paramiko.Transport((HOST, self.port))
        transport.connect(username=user, pkey=paramiko.Ed25519Key(filename=str(self.folder / (key or user))))
        return transport

    def sessions(self) -> int:
        return self.listener.state.admission.sessions


@contextmanager
def shell_server(folder: Path, **bounds: Any) -> Iterator[ShellServer]:
    """bounds: those that differ from the product's."""
    key = host_key.load_or_make(folder)
    listener = Listener(HOST, 0, key, ShellBounds(**bounds))
    (folder / "known_hosts").write_text(f"[{HOST}]:{listener.port} {key.get_name()} {key.get_base64()}\n")
    thread = threading.Thread(target=listener.serve, daemon=True)
    thread.start()
    try:
        yield ShellServer(listener, folder)
    finally:
        listener.stop()
        thread.join(60)
        listener.close()
