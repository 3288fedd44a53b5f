"""sshftp against OpenSSH's sshd and the toolkit's server: who logs in, what moves, and what each refusal is called."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.login import Login
from endpoints.gridftp.third_party import lane as lanes
from endpoints.gridftp.third_party.data_security import DataSecurity, agree, obstacle, secure
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileRefused, FileReturned, FileSettled, Transfer
from endpoints.ssh.keys import valid_fingerprint
from endpoints.ssh.sshftp_login import SshLogin
from tests.conformance.gsi.test_lanes import ProxiedPath
from tests.gridftp import sshd
from tests.gridftp.authority import Authority
from tests.gridftp.data_proxy import DataProxy
from tests.gridftp.grid import login_of, open_session
from tests.gridftp.ssh_grid import (
    NEEDS_SSHD,
    key,
    key_pair,
    login,
    nothing_stays,
    opened,
    refusal,
    server,
    ssh_login,
    until,
)
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import ToolkitServer, hand_over

pytestmark = [
    pytest.mark.toolkit,
    NEEDS_SSHD,
]

Servers = Callable[..., SshServer]
FILES = 40

__all__ = ["key", "login", "nothing_stays", "server"]


@pytest.fixture
def folder(grid_home: Path) -> Path:
    """Not below pytest's own folder, which each start of pytest by the same user closes to others."""
    served = grid_home / f"served-{secrets.token_hex(4)}"
    served.mkdir(mode=0o755)
    return served


@pytest.fixture
def shared(folder: Path) -> Path:
    """Files that the account behind the servers may read, and a folder that it may write."""
    noise = random.Random(4)
    (folder / "from").mkdir()
    (folder / "to").mkdir()
    for index in range(FILES):
        (folder / "from" / f"file{index}").write_bytes(noise.randbytes((0, 1, 1000, 70_000, 1_500_000)[index % 5]))
    hand_over(folder, stop_at=Path(tempfile.gettempdir()))
    return folder


# ---- logging in


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ed25519", ()),
        ("ecdsa", ("-b", "256")),
        ("ecdsa", ("-b", "521")),
        ("rsa", ("-b", "3072")),
        ("rsa", ("-m", "PEM")),
    ],
)
async def test_a_key_of_any_kind_opens_a_session(server, shared, tmp_path, kind, options):
    own = key_pair(tmp_path, kind, *options, name="own")
    server.authorize(own)
    async with opened(server.port, ssh_login(server, own)) as session:
        assert session.connection.peer_host == "127.0.0.1"
        assert session.login.protected
        assert "DCSC" in session.features
        assert not session.eight_bit_clean
        names = {entry.name async for entries in session.listing(str(shared / "from")) for entry in entries}
        assert len(names) == FILES
        await session.make_directory(str(shared / "to" / "made"))
        assert (shared / "to" / "made").is_dir()


@pytest.mark.parametrize("kind", sshd.HOST_KEYS)
async def test_any_of_the_hosts_keys_may_be_the_registered_one(server, key, kind):
    login = ssh_login(server, key, host_key=server.fingerprint(kind))
    for _ in range(2):  # the second time it is known which kind to ask for
        async with opened(server.port, login) as session:
            assert session.usable


async def test_a_name_beyond_ascii_is_refused_before_it_is_mangled(server, login, shared):
    async with opened(server.port, login) as session:
        with pytest.raises(FaultError) as caught:
            await session.stat(str(shared / "é"))
    assert caught.value.fault.kind is Kind.INVALID_PATH_NAME


async def test_a_large_listing_comes_whole(server, login, folder):
    (folder / "many").mkdir()
    for index in range(6000):
        (folder / "many" / f"a-name-of-some-length-{index:05}").touch()
    hand_over(folder, stop_at=Path(tempfile.gettempdir()))
    async with opened(server.port, login) as session:
        seen = 0
        async for entries in session.listing(str(folder / "many")):
            seen += len(entries)
            await asyncio.sleep(0.01)  # slower than the server: reading is paused meanwhile
        assert seen == 6000


async def test_many_commands_may_be_under_way_at_once(server, login, shared):
    async with opened(server.port, login) as session:
        entries = await asyncio.gather(*(session.stat(str(shared / "from" / f"file{n % FILES}")) for n in range(900)))
        assert [entry.size for entry in entries[:5]] == [0, 1, 1000, 70_000, 1_500_000]


async def test_the_key_of_warm_sessions_distinguishes_accounts_keys_and_hosts(server, key, tmp_path):
    other = key_pair(tmp_path, name="other")
    logins = [
        ssh_login(server, key),
        ssh_login(server, other),
        ssh_login(server, key, username="somebody"),
        ssh_login(server, key, host_key=server.fingerprint("rsa")),
    ]
    assert len({login.key for login in logins}) == 4
    assert ssh_login(server, key).key == logins[0].key
    assert "PRIVATE" not in repr(logins[0]) + logins[0].key


# ---- refusals


async def test_a_key_that_is_not_authorized_is_refused(server, tmp_path):
    fault = await refusal(server.port, ssh_login(server, key_pair(tmp_path, name="other")))
    assert (fault.kind, fault.scope) == (Kind.AUTH, FaultScope.ENDPOINT)
    assert server.username in fault.advice
    assert "authorized_keys" in fault.advice


async def test_an_account_that_is_not_there_is_refused_in_the_same_words(server, key):
    fault = await refusal(server.port, ssh_login(server, key, username="nobody-of-that-name"))
    assert fault.kind is Kind.AUTH


async def test_keys_of_the_account_that_we_run_as_are_never_tried(server, tmp_path, monkeypatch):
    """An authorized key lies in ~/.ssh; the user's own is not authorized, and that is that."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    server.authorize(key_pair(tmp_path / ".ssh", name="id_ed25519"))
    monkeypatch.setenv("HOME", str(tmp_path))
    fault = await refusal(server.port, ssh_login(server, key_pair(tmp_path, name="other")))
    assert fault.kind is Kind.AUTH


async def test_without_a_registered_host_key_the_fingerprint_is_shown_and_nothing_else_done(server, key):
    fault = await refusal(server.port, ssh_login(server, key, host_key=""))
    assert (fault.kind, fault.scope) == (Kind.GSI_DN_MISMATCH, FaultScope.ENDPOINT)
    assert server.fingerprint() in fault.advice
    assert "register" in fault.advice
    assert "Accepted" not in server.log.read_text(), "the key was never shown to a host that nobody knows"


@pytest.mark.parametrize("subject", ["SHA256:" + "A" * 43, "/O=Grid/CN=localhost", "SHA256:", "MD5:aa:bb"])
async def test_another_host_is_never_logged_in_to(server, key, subject):
    fault = await refusal(server.port, ssh_login(server, key, host_key=subject))
    assert fault.kind is Kind.GSI_DN_MISMATCH
    assert server.fingerprint() in fault.advice
    assert "Accepted" not in server.log.read_text()


async def test_a_changed_host_key_is_noticed_also_by_who_has_been_there_before(ssh_server_factory, key):
    first = ssh_server_factory(host_keys=["ed25519"])
    first.authorize(key)
    login = ssh_login(first, key)
    async with opened(first.port, login):
        pass
    second = ssh_server_factory(host_keys=["ed25519", "rsa"])
    fault = await refusal(second.port, login)
    assert fault.kind is Kind.GSI_DN_MISMATCH
    assert second.fingerprint() in fault.advice


async def test_a_host_that_has_no_key_of_a_known_kind_any_more_is_noticed(ssh_server_factory, key):
    first = ssh_server_factory(host_keys=["rsa"])
    first.authorize(key)
    login = ssh_login(first, key, host_key=first.fingerprint("rsa"))
    async with opened(first.port, login):
        pass
    second = ssh_server_factory(host_keys=["ed25519"])
    await refusal(second.port, login)
    fault = await refusal(second.port, login)
    assert fault.kind is Kind.GSI_DN_MISMATCH


async def test_a_host_without_the_sshftp_command_is_distinguished(ssh_server_factory, key):
    server = ssh_server_factory(sshftp=False)
    server.authorize(key)
    fault = await refusal(server.port, ssh_login(server, key))
    assert (fault.kind, fault.scope) == (Kind.UNSUPPORTED, FaultScope.ENDPOINT)
    assert "globus-gridftp-server-enable-sshftp" in fault.advice


async def test_what_the_remote_shell_says_is_reported(ssh_server_factory, key):
    server = ssh_server_factory()
    server.authorize(key)
    (server.home / ".globus" / "sshftp").write_text("#!/bin/sh\necho this account is closed >&2\nexit 0\n")
    fault = await refusal(server.port, ssh_login(server, key))
    assert fault.kind is Kind.CONNECTION_BROKEN
    assert "this account is closed" in fault.raw


async def test_a_shell_that_talks_before_the_server_is_no_server(ssh_server_factory, key):
    server = ssh_server_factory()
    server.authorize(key)
    (server.home / ".globus" / "sshftp").write_text("#!/bin/sh\necho Welcome to the cluster\nsleep 60\n")
    fault = await refusal(server.port, ssh_login(server, key))
    assert fault.kind is Kind.ENDPOINT_ERROR


async def test_an_account_that_may_run_no_commands_is_distinguished(ssh_server_factory, key):
    server = ssh_server_factory("MaxSessions 0")
    server.authorize(key)
    fault = await refusal(server.port, ssh_login(server, key))
    assert (fault.kind, fault.scope) == (Kind.ENDPOINT_ERROR, FaultScope.ENDPOINT)
    assert "run commands" in fault.advice


@pytest.mark.parametrize(
    "only",
    [
        ("Ciphers aes128-cbc", "MACs hmac-sha1"),
        ("KexAlgorithms diffie-hellman-group-exchange-sha256",),
        ("KexAlgorithms diffie-hellman-group16-sha512",),
    ],
)
async def test_a_host_with_old_or_slow_algorithms_only_is_refused(ssh_server_factory, key, only):
    server = ssh_server_factory(*only)
    server.authorize(key)
    fault = await refusal(server.port, ssh_login(server, key))
    assert fault.kind is Kind.ENDPOINT_ERROR
    assert "safe" in fault.advice


async def test_a_closed_port_is_a_connection_that_failed(key, server):
    server.stop()
    fault = await refusal(server.port, ssh_login(server, key))
    assert (fault.kind, fault.scope) == (Kind.CONNECT_FAILED, FaultScope.ENDPOINT)


async def test_nothing_of_the_key_is_logged(server, key, caplog):
    caplog.set_level(logging.DEBUG)
    async with opened(server.port, ssh_login(server, key)):
        pass
    secret = key.read_text().splitlines()[1:-1]
    assert not [line for line in secret if line in caplog.text]


# ---- moving data


async def move(shared: Path, source: GridFTPSession, destination: GridFTPSession, names: list[str]) -> set[str]:
    lane = ThirdPartyLane(source, destination, parallelism=2, accept_address=lambda _: True, stall_timeout=20.0)
    waiting, flying, settled = deque(names), 0, set[str]()
    async with asyncio.timeout(60):
        while (waiting or flying) and lane.alive:
            while waiting and flying < 10:
                name = waiting.popleft()
                path = shared / "from" / name
                target = str(shared / "to" / name).encode()
                lane.feed(Transfer(name, str(path).encode(), target, path.stat().st_size))
                flying += 1
            for event in await lane.events():
                flying -= isinstance(event, FileSettled | FileRefused | FileReturned)
                assert not isinstance(event, FileRefused) or event.fault.scope is FaultScope.SESSION, event.fault
                if isinstance(event, FileSettled):
                    settled.add(str(event.tag))
    lane.release()
    return settled


@pytest.fixture
def places(
    server: SshServer,
    login: SshLogin,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
    authority: Authority,
    shared: Path,
) -> dict[str, tuple[int, Login]]:
    gsi = gsi_server_factory(shared)
    return {"ssh": (server.port, login), "gsi": (gsi.port, login_of(identity_of("alice"), authority))}


@pytest.mark.parametrize("encrypt", [False, True], ids=["clear", "encrypted"])
@pytest.mark.parametrize("way", ["ssh-ssh", "ssh-gsi", "gsi-ssh"])
async def test_files_move_between_servers_that_share_no_credential(places, shared, way, encrypt):
    source_kind, destination_kind = way.split("-")
    async with opened(*places[source_kind]) as source, opened(*places[destination_kind]) as destination:
        wanted = agree(source, destination, encrypt=encrypt)
        assert wanted is (DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED)
        assert await secure(source, destination, wanted) is wanted
        names = [f"file{index}" for index in range(FILES)]
        assert await move(shared, source, destination, names) == set(names)
    for name in names:
        assert (shared / "to" / name).read_bytes() == (shared / "from" / name).read_bytes()


@pytest.mark.parametrize("encrypt", [False, True], ids=["clear", "encrypted"])
async def test_the_wire_between_two_ssh_servers_shows_tls_and_no_data_when_encrypted(
    server, login, shared, encrypt, monkeypatch
):
    words = b"not for everybody's eyes " * 4000
    (shared / "from" / "words").write_bytes(words)
    hand_over(shared, stop_at=Path(tempfile.gettempdir()))
    async with DataProxy(keep=True) as wire, opened(server.port, login) as one, opened(server.port, login) as other:
        monkeypatch.setattr(lanes, "_data_path", lambda *_, **__: ProxiedPath(proxy=wire))
        await secure(one, other, agree(one, other, encrypt=encrypt))
        assert await move(shared, one, other, ["words"]) == {"words"}
        assert wire.seen.startswith(b"\x16\x03"), "no TLS on the data channel"
        assert (words[:1000] in wire.seen) is not encrypt
    assert (shared / "to" / "words").read_bytes() == words


async def test_an_anonymous_server_gets_no_key_and_both_move_in_clear(server, login, shared, toolkit_server_factory):
    plain = toolkit_server_factory(shared)
    async with opened(server.port, login) as source:
        destination = await GridFTPSession.open("127.0.0.1", plain.port)
        wanted = agree(source, destination, encrypt=False)
        assert wanted is DataSecurity.UNAUTHENTICATED
        await secure(source, destination, wanted)
        assert await move(shared, source, destination, ["file4", "file3"]) == {"file4", "file3"}
        with pytest.raises(FaultError) as caught:
            agree(source, destination, encrypt=True)
        assert caught.value.fault.kind is Kind.UNSUPPORTED
        await destination.close()


async def test_a_host_without_a_folder_of_authorities_moves_data_bare_and_says_what_cures_it(
    ssh_server_factory, key, shared
):
    """A host has no such folder after the installation of the toolkit and enable-sshftp."""
    fresh = ssh_server_factory(trusting=False)
    fresh.authorize(key)
    login = ssh_login(fresh, key)
    async with opened(fresh.port, login) as source, opened(fresh.port, login) as destination:
        held = await secure(source, destination, agree(source, destination, encrypt=False))
        assert held is DataSecurity.UNAUTHENTICATED
        assert await move(shared, source, destination, ["file3"]) == {"file3"}
        found = obstacle(source, destination, encrypt=False)
        assert found
        with pytest.raises(FaultError) as caught:
            agree(source, destination, encrypt=True)
    assert found is not None
    for text in (found.text, caught.value.fault.advice):
        assert "~/.globus/certificates" in text
    for words in (found.words, caught.value.fault.raw):
        assert "valid trusted CA certificates directory" in words

    fresh.trust()
    async with opened(fresh.port, login) as source, opened(fresh.port, login) as destination:
        assert await secure(source, destination, agree(source, destination, encrypt=True)) is DataSecurity.PRIVATE


async def test_an_sshd_that_is_killed_in_the_middle_loses_the_lane_and_nothing_else(server, login, shared):
    with (shared / "from" / "big").open("wb") as file:
        file.truncate(2**31)
    hand_over(shared, stop_at=Path(tempfile.gettempdir()))
    source, destination = [await open_session(server.port, login) for _ in range(2)]
    await secure(source, destination, agree(source, destination, encrypt=True))
    moving = asyncio.ensure_future(move(shared, source, destination, ["big"]))
    await until((shared / "to" / "big").exists)
    server.kill_sessions()
    assert await moving == set()
    assert not source.usable or not destination.usable
    for session in (source, destination):
        session.connection.abort()
    async with opened(server.port, login) as again:
        assert again.usable


def test_a_fingerprint_is_what_ssh_keygen_prints(key):
    assert valid_fingerprint(sshd.fingerprint(key))
    for text in ("", "SHA256:abc", sshd.fingerprint(key) + "=", "MD5:" + "aa:" * 16, sshd.fingerprint(key) + "\n"):
        assert not valid_fingerprint(text)
