"""Lanes in which one end is reached over ssh: the same throw-away key serves both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.login import Login
from endpoints.gridftp.third_party import lane as lanes
from endpoints.gridftp.third_party.data_security import DataSecurity
from endpoints.ssh.sshftp_login import SshLogin
from tests.conformance.gsi.test_lanes import PLAIN, HasPort, ProxiedPath, folder, move_all, secured, sessions
from tests.gridftp.authority import Authority
from tests.gridftp.data_proxy import DataProxy
from tests.gridftp.grid import login_of
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.sshd import SshServer, make_key
from tests.gridftp.toolkit import ToolkitServer

__all__ = ["folder"]

pytestmark = [
    pytest.mark.toolkit,
    NEEDS_SSHD,
]


@pytest.mark.parametrize(("one", "other"), [("gsi", "ssh"), ("ssh", "gsi"), ("ssh", "ssh")])
@pytest.mark.parametrize("encrypt", [False, True])
async def test_servers_behind_ssh_move_protected_data(
    folder: Path,
    tmp_path: Path,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
    authority: Authority,
    ssh_server: SshServer,
    monkeypatch: pytest.MonkeyPatch,
    one: str,
    other: str,
    encrypt: bool,
) -> None:
    """By default sshftp servers act as with DCAU N, and PROT P alone would encrypt nothing."""
    key = make_key(tmp_path / "key", "ed25519")
    ssh_server.authorize(key)
    gsi = gsi_server_factory(folder)
    over_ssh = SshLogin(ssh_server.username, key.read_bytes(), ssh_server.fingerprint())
    ends: dict[str, tuple[HasPort, Login]] = {
        "gsi": (gsi, login_of(identity_of("alice"), authority)),
        "ssh": (ssh_server, over_ssh),
    }

    async with DataProxy(keep=True) as wire, sessions(ends[one], ends[other]) as (source, destination):
        monkeypatch.setattr(lanes, "_data_path", lambda *_, **__: ProxiedPath(proxy=wire))
        held = await secured(source, destination, encrypt=encrypt)
        await move_all(source, destination, folder)

    assert held is (DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED)
    assert wire.seen.startswith(b"\x16\x03")
    assert (PLAIN in wire.seen) is not encrypt
