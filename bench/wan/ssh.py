"""An OpenSSH server of our own for scp, rsync and rclone, with its own keys; nothing of the user's is touched."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.stack.child import spawn, stop, wait_ready

from .network import Host, Network

SERVER_CONFIG = """\
ListenAddress {address}
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
Subsystem sftp internal-sftp
"""
CLIENT_CONFIG = """\
Host {name}
HostName {address}
User root
IdentityFile {folder}/key
UserKnownHostsFile {folder}/known-hosts
StrictHostKeyChecking accept-new
"""


def server_program() -> str | None:
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")


def config(folder: Path) -> Path:
    """For `ssh -F`, once the server is there."""
    return folder / "config"


@contextmanager
def ssh_server(net: Network, host: Host, folder: Path) -> Iterator[None]:
    """Runs on `host` during the block; its keys and the client's configuration are in `folder`."""
    program = server_program()
    assert program is not None
    folder.mkdir(mode=0o700)
    for key in ("host-key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    where = {"name": host.name, "address": host.address, "folder": folder}
    (folder / "sshd_config").write_text(SERVER_CONFIG.format(**where))
    config(folder).write_text(CLIENT_CONFIG.format(**where))
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd(8) insists on it
    log = folder / "log"
    process = spawn([*host.prefix, program, "-D", "-e", "-f", folder / "sshd_config"], log=log)
    try:
        wait_ready("sshd", process, lambda: _answers(net, folder, host.name), timeout=20, log=log)
        yield
    finally:
        stop(process)


def _answers(net: Network, folder: Path, name: str) -> bool:
    asked: Sequence[str] = ["ssh", "-F", str(config(folder)), "-o", "BatchMode=yes", name, "true"]
    return net.run_in("source", asked, stderr=subprocess.DEVNULL).wait(timeout=20) == 0
