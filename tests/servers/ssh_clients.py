"""Ssh clients of others: programs and libraries, each with the same words for a command and for sftp.

`tests/install-tools.sh` installs them; tests that use them carry `@pytest.mark.ssh_clients`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from transferapi.config import CHECKOUT

from . import ssh_libraries
from .shell_server import HOST, ShellServer

#: Each of them answers within a second on a quiet machine.
SECONDS = 60
Ended = subprocess.CompletedProcess[bytes]
PROGRAMS = ("ssh", "sftp", "scp", "plink", "psftp", "pscp", "puttygen", "dbclient", "dropbearconvert", "curl")


def installed() -> bool:
    return all(shutil.which(name) for name in PROGRAMS) and all(map(ssh_libraries.library, ("libssh", "libssh2")))


def _end(*words: object) -> Ended:
    return subprocess.run(
        [str(word) for word in words], input=b"", capture_output=True, timeout=SECONDS, check=False, cwd=CHECKOUT
    )


def _key(server: ShellServer) -> Path:
    """alice's key, with the public one beside it."""
    file = server.folder / "alice"
    file.with_suffix(".pub").write_text(server.public_key(file))
    return file


def _openssh(program: str, server: ShellServer, *words: str) -> Ended:
    port = ("-p" if program == "ssh" else "-P", str(server.port))
    return _end(program, *port, *server.command()[5:-1], *words)


def _putty(program: str, server: ShellServer, *words: str) -> Ended:
    ours = server.folder / "alice.ppk"
    if not ours.exists():
        _end("puttygen", _key(server), "-o", ours).check_returncode()
    asked = _end("ssh-keygen", "-l", "-f", server.folder / "ssh-host-key.pub")
    return _end(program, "-batch", "-P", server.port, "-hostkey", asked.stdout.split()[1].decode(), "-i", ours, *words)


def _dropbear(server: ShellServer, *words: str) -> Ended:
    ours = server.folder / "alice.dropbear"
    if not ours.exists():
        _end("dropbearconvert", "openssh", "dropbear", _key(server), ours).check_returncode()
    return _end("dbclient", "-y", "-y", "-i", ours, "-p", server.port, *words)


def _library(name: str, server: ShellServer, *words: str) -> Ended:
    module = "tests.servers.ssh_libraries"
    return _end(sys.executable, "-m", module, name, HOST, server.port, "alice", _key(server), *words)


_PARAMIKO = """
import sys, paramiko
host, port, key, *command = sys.argv[1:]
transport = paramiko.Transport((host, int(port)))
transport.connect(username="alice", pkey=paramiko.Ed25519Key(filename=key))
if not command:
    paramiko.SFTPClient.from_transport(transport).listdir("/")
    raise SystemExit(0)
channel = transport.open_session()
channel.exec_command(command[0])
sys.stdout.write(channel.makefile().read().decode())
raise SystemExit(channel.recv_exit_status())
"""
_ASYNCSSH = """
import asyncio, sys, asyncssh
host, port, key, *command = sys.argv[1:]
async def main():
    async with asyncssh.connect(host, int(port), username="alice", client_keys=[key], known_hosts=None) as connection:
        if not command:
            async with connection.start_sftp_client() as sftp:
                await sftp.listdir("/")
            return 0
        ended = await connection.run(command[0])
        sys.stdout.write(ended.stdout)
        return ended.exit_status
raise SystemExit(asyncio.run(main()))
"""


def _python(code: str, server: ShellServer, *words: str) -> Ended:
    return _end(sys.executable, "-c", code, HOST, server.port, _key(server), *words)


def _curl(scheme: str, server: ShellServer, *words: str) -> Ended:
    keys = ("--key", _key(server), "--pubkey", _key(server).with_suffix(".pub"))
    return _end("curl", "-sS", "-k", *keys, "-u", "alice:", *words, f"{scheme}://{HOST}:{server.port}/x")


_ALICE = f"alice@{HOST}"
#: One command, `help help`.
COMMAND: dict[str, Callable[[ShellServer], Ended]] = {
    "OpenSSH": lambda server: _openssh("ssh", server, _ALICE, "help help"),
    "PuTTY": lambda server: _putty("plink", server, _ALICE, "help help"),
    "Dropbear": lambda server: _dropbear(server, _ALICE, "help help"),
    "libssh": lambda server: _library("libssh", server, "exec", "help help"),
    "libssh2": lambda server: _library("libssh2", server, "exec", "help help"),
    "paramiko": lambda server: _python(_PARAMIKO, server, "help help"),
    "asyncssh": lambda server: _python(_ASYNCSSH, server, "help help"),
}
#: The subsystem sftp.
SFTP: dict[str, Callable[[ShellServer], Ended]] = {
    "OpenSSH": lambda server: _openssh("sftp", server, _ALICE),
    "OpenSSH, scp": lambda server: _openssh("scp", server, "/dev/null", f"{_ALICE}:x"),
    "PuTTY": lambda server: _putty("psftp", server, _ALICE),
    "PuTTY, pscp": lambda server: _putty("pscp", server, __file__, f"{_ALICE}:x"),
    "Dropbear": lambda server: _dropbear(server, "-s", _ALICE, "sftp"),
    "libssh": lambda server: _library("libssh", server, "sftp"),
    "libssh2": lambda server: _library("libssh2", server, "sftp"),
    "curl": lambda server: _curl("sftp", server),
    "paramiko": lambda server: _python(_PARAMIKO, server),
    "asyncssh": lambda server: _python(_ASYNCSSH, server),
}
#: The protocol of rcp, which `scp` spoke before OpenSSH 9.
RCP: dict[str, Callable[[ShellServer], Ended]] = {
    "OpenSSH, to the server": lambda server: _openssh("scp", server, "-O", __file__, f"{_ALICE}:x"),
    "OpenSSH, a folder": lambda server: _openssh(
        "scp", server, "-O", "-r", "-p", str(Path(__file__).parent), f"{_ALICE}:x"
    ),
    "OpenSSH, from the server": lambda server: _openssh("scp", server, "-O", f"{_ALICE}:x", str(server.folder / "x")),
    "PuTTY, to the server": lambda server: _putty("pscp", server, "-scp", __file__, f"{_ALICE}:x"),
    "PuTTY, from the server": lambda server: _putty("pscp", server, "-scp", f"{_ALICE}:x", str(server.folder / "x")),
    "curl, from the server": lambda server: _curl("scp", server),
    "curl, to the server": lambda server: _curl("scp", server, "-T", __file__),
}
