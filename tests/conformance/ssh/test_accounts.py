"""Accounts on which nothing is installed, on real sshds: what the login finds, what runs there, and what it does when
the account's shell, its python3 or its disk is not as one would wish.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.ssh.accounts import account_login
from endpoints.ssh.accounts.account_login import AccountLogin, OnlySftpError, remove_program
from endpoints.ssh.accounts.offer import OWN, SFTP, TOOLKIT, AccountOffer
from endpoints.ssh.accounts.packed_server import program
from endpoints.ssh.connection import JumpHost, SshAccount
from endpoints.ssh.keys import parse_ssh_key
from tests.gridftp.grid import open_session
from tests.gridftp.ssh_grid import NEEDS_SSHD, Relay, key_pair, only
from tests.gridftp.sshd import SshServer

pytestmark = [pytest.mark.toolkit, NEEDS_SSHD]


def _interpreters(*versions: str) -> dict[str, Path]:
    """Interpreters of these versions that are installed beside ours, as pyenv does."""
    beside = Path(sys.base_prefix).parent
    return {version: path for version in versions for path in beside.glob(f"{version}.*/bin/python{version}")}


OLD_PYTHONS = _interpreters("2.7", "3.6", "3.7")


@pytest.fixture(scope="module")
def own_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return key_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def host(grid_home: Path, own_key: Path) -> Iterator[SshServer]:
    folder = grid_home / "bare-account"
    folder.mkdir(mode=0o711)
    with SshServer(folder, profile="") as server:
        server.authorize(own_key)
        yield server


@pytest.fixture
def bare(host: SshServer) -> Iterator[SshServer]:
    """The account, with an empty profile and without a cache."""
    host.set_profile("")
    yield host
    for entry in host.home.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@pytest.fixture
def login(bare: SshServer, own_key: Path) -> AccountLogin:
    return login_of(bare, own_key)


def login_of(server: SshServer, key: Path, **options: object) -> AccountLogin:
    account = SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())
    return AccountLogin(account, **options)  # type: ignore[arg-type]


async def found(server: SshServer, login: AccountLogin) -> AccountOffer:
    """Open a session, use it, and say what was found."""
    session = await open_session(server.port, login)
    assert (await session.stat("/")).is_directory
    assert isinstance(session.connection, account_login.AccountConnection)
    words = session.connection.found
    await session.close()
    return words


async def refused(server: SshServer, login: AccountLogin, *, timeout: float = 20.0) -> FaultError:
    with pytest.raises(FaultError) as caught:
        await open_session(server.port, login, timeout=timeout)
    return caught.value


def cached(server: SshServer) -> list[Path]:
    return sorted((server.home / ".cache" / "waybill").glob("*"))


# ---- what is found


async def test_our_server_runs_from_memory_and_is_sent_once(bare, login):
    assert (await found(bare, login)).note == "sent"
    [kept] = cached(bare)
    assert kept.name == f"server-{program().digest}.zlib"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    second = await found(bare, login)
    assert second.kind == OWN
    assert second.note == "cached"


async def test_the_session_begins_in_the_accounts_home_and_moves_files(bare, login):
    session = await open_session(bare.port, login)
    assert session.home == str(bare.home)
    assert session.eight_bit_clean
    await session.make_directory("/~/é")
    assert (bare.home / "é").is_dir()
    await session.close()


async def test_the_first_session_knows_its_round_trip(bare, login):
    """The first plan is made by it: where it is not known, a host 60 ms away counts as near."""
    async with Relay(bare.port, delay=0.1) as far:
        session = await open_session(far.port, login)
        assert session.round_trip is not None
        assert 0.1 <= session.round_trip < 1.1
        await session.close()


async def test_the_toolkits_server_is_preferred_where_it_is_set_up(ssh_server_factory, own_key):
    server = ssh_server_factory()
    server.authorize(own_key)
    assert (await found(server, login_of(server, own_key))).kind == TOOLKIT


async def test_a_greeting_of_the_shell_is_skipped(bare, login):
    bare.set_profile("echo Welcome to the cluster; printf 'no end of line'; echo maintenance on Monday >&2")
    assert (await found(bare, login)).kind == OWN


async def test_an_endless_greeting_ends_the_login(bare, login):
    bare.set_profile("yes 'welcome, welcome'")
    error = await refused(bare, login)
    assert error.fault.kind is Kind.UNSUPPORTED
    assert "without an end" in error.fault.raw


# ---- accounts without a fitting python3


async def test_an_account_without_python_has_sftp(bare, login):
    only(bare)
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    assert error.found.kind == SFTP
    assert "no python3 of 3.8 or later (found: none)" in error.found.words


@pytest.mark.parametrize("line", ["", "Subsystem sftp /nonexistent"], ids=["no subsystem", "a missing program"])
async def test_an_account_with_neither_python_nor_sftp_is_refused_with_both_reasons(grid_home, own_key, line):
    """An administrator can install either: the fault says so, and is tried again."""
    folder = grid_home / f"neither-{len(line)}"
    folder.mkdir(mode=0o711)
    with SshServer(folder, line, profile="") as server:
        server.authorize(own_key)
        only(server)
        with pytest.raises(FaultError) as caught:
            await login_of(server, own_key).open_session("127.0.0.1", server.port)
    fault = caught.value.fault
    assert (fault.kind, fault.scope, fault.retryable) == (Kind.UNSUPPORTED, FaultScope.ENDPOINT, True)
    assert fault.advice.startswith("There is no python3 of 3.8 or later (found: none). Its ssh server starts no SFTP")


@pytest.mark.parametrize("version", OLD_PYTHONS or ["2.7"])
async def test_an_old_python_is_named_and_not_used(bare, login, version):
    fake = bare.home / "old"
    fake.write_text(f"#!/bin/sh\necho -{version}.18\n")
    fake.chmod(0o755)
    only(bare, python3=str(OLD_PYTHONS.get(version, fake)))
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    assert f"found: python3 {version}" in error.found.words


async def test_a_newer_python_beside_an_old_python3_is_used(bare, login):
    fake = bare.home / "old"
    fake.write_text("#!/bin/sh\necho -3.6.8\n")
    fake.chmod(0o755)
    only(bare, python3=str(fake), python3_11="/usr/bin/python3")
    assert (await found(bare, login)).kind == OWN


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "no python3 of 3.8"),
        ("echo load the module python first; exit 0", "no python3 of 3.8"),
        ("case $4 in -u) exit 1;; *) echo +3.9.0;; esac", "did not start our server"),
    ],
)
async def test_a_python3_that_does_not_work_leads_to_sftp(bare, login, script, words):
    fake = bare.home / "broken"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    only(bare, python3=str(fake))
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    assert words in error.found.words


@pytest.mark.parametrize("module", ["ssl", "asyncio", "hashlib"])
async def test_a_python3_that_lacks_a_part_leads_to_sftp_and_says_which(bare, login, module):
    """As one that was built without OpenSSL, or that a distribution has cut into packages."""
    fake, python = bare.home / "part", "/usr/bin/python3"
    fake.write_text(
        f'#!/bin/sh\ncase $4 in -u) code=$6; shift 6; exec {python} -E -s -S -u -c "import sys; '
        f'sys.modules[\'{module}\'] = None; $code" "$@";; *) exec {python} "$@";; esac\n'
    )
    fake.chmod(0o755)
    only(bare, python3=str(fake))
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    if module == "hashlib":
        assert "did not start our server" in error.found.words
    else:
        assert f"cannot run our server: import of {module} halted" in error.found.words


async def test_a_module_in_the_home_does_not_run_in_our_server(bare, login):
    for name in ("socket.py", "endpoints.py", "sitecustomize.py", "zlib.py"):
        (bare.home / name).write_text("raise SystemExit('a module of the account')")
    bare.set_profile(f"export PYTHONPATH={bare.home} PYTHONSTARTUP={bare.home}/socket.py")
    assert (await found(bare, login)).kind == OWN


# ---- shells that run nothing of ours


async def test_a_restricted_shell_leads_to_sftp(bare, login):
    bare.set_profile('exec bash -r -c "$SSH_ORIGINAL_COMMAND"')
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    assert "restricted" in error.fault.raw


async def test_an_account_for_sftp_only_is_seen_at_once(ssh_server_factory, own_key):
    server = ssh_server_factory(sftp_only=True)
    server.authorize(own_key)
    error = await refused(server, login_of(server, own_key))
    assert isinstance(error, OnlySftpError)
    assert error.found.words == "The account's shell runs no commands of ours."
    assert "sftp connections only" in error.fault.raw


async def test_an_sftp_server_in_place_of_the_shell_answers_at_once(bare, login):
    bare.set_profile("exec /usr/lib/openssh/sftp-server")
    error = await refused(bare, login)
    assert isinstance(error, OnlySftpError)
    assert error.found.words == "The account may use SFTP only."


async def test_a_login_that_hangs_ends_in_time(bare, login, monkeypatch):
    monkeypatch.setattr(account_login, "TIMEOUT", 2.0)
    bare.set_profile("exec sleep 60")
    error = await refused(bare, login, timeout=2.0)
    assert error.fault.kind is Kind.TIMEOUT
    bare.set_profile("")
    async with Relay(bare.port, after=500, hang=True) as relay:
        with pytest.raises(FaultError) as caught:
            await open_session(relay.port, login, timeout=2.0)
    assert caught.value.fault.kind is Kind.TIMEOUT


# ---- the cache


async def test_without_a_writable_cache_the_program_is_sent_each_time(bare, login):
    (bare.home / ".cache").write_text("a file")
    for _ in range(2):
        assert "cannot keep in its cache folder" in (await found(bare, login)).words


async def test_a_full_disk_leaves_no_half_of_the_program(bare, login):
    bare.set_profile("ulimit -f 8")  # 4 KB, with SIGXFSZ ignored by python
    assert "cannot keep in its cache folder" in (await found(bare, login)).words
    assert cached(bare) == []


async def test_a_cache_that_others_can_write_is_not_used(bare, login):
    folder = bare.home / ".cache" / "waybill"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert "not the account's alone" in (await found(bare, login)).words
    shutil.rmtree(folder)
    folder.symlink_to(bare.home)
    assert "not the account's alone" in (await found(bare, login)).words


async def test_a_changed_file_in_the_cache_is_sent_anew(bare, login):
    await found(bare, login)
    [kept] = cached(bare)
    size = kept.stat().st_size
    kept.write_bytes(bytes(size))
    assert (await found(bare, login)).note == "sent"
    [again] = cached(bare)
    assert again.read_bytes() == program().blob


async def test_two_workers_at_once_leave_one_file(bare, login):
    both = await asyncio.gather(*(found(bare, login) for _ in range(4)))
    assert {one.kind for one in both} == {OWN}
    assert len(cached(bare)) == 1


async def test_the_program_is_removed_on_request_and_nothing_else(bare, login):
    await found(bare, login)
    other = bare.home / ".cache" / "waybill" / "notes.txt"
    other.write_text("mine")
    assert not await remove_program(login, "127.0.0.1", bare.port)
    assert cached(bare) == [other]
    other.unlink()
    assert await remove_program(login, "127.0.0.1", bare.port)
    assert not other.parent.exists()


async def test_the_cache_follows_the_accounts_environment(bare, login):
    elsewhere = bare.home / "elsewhere"
    bare.set_profile(f"export XDG_CACHE_HOME={elsewhere}")
    await found(bare, login)
    assert len(list((elsewhere / "waybill").iterdir())) == 1
    assert await remove_program(login, "127.0.0.1", bare.port)
    assert not (elsewhere / "waybill").exists()


# ---- host keys and jump hosts


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
async def test_any_of_the_hosts_keys_may_be_the_pinned_one(bare, own_key, kind):
    account = SshAccount(bare.username, parse_ssh_key(own_key.read_text()).pem, bare.fingerprint(kind))
    for _ in range(2):
        assert (await found(bare, AccountLogin(account))).kind == OWN


async def test_another_host_key_is_refused_and_noted(bare, own_key):
    noted: list[str] = []
    wrong = "SHA256:" + "A" * 43
    account = SshAccount(bare.username, parse_ssh_key(own_key.read_text()).pem, wrong)
    error = await refused(bare, AccountLogin(account, note_host_key=noted.append))
    assert error.fault.kind is Kind.HOST_KEY_CHANGED
    assert noted == [bare.fingerprint("ed25519")]
    assert wrong in error.fault.advice
    assert noted[0] in error.fault.advice
    assert "Accepted" not in bare.log.read_text().split("Connection from")[-1]


async def test_a_key_that_is_not_authorized_is_a_fault_of_the_login(bare, tmp_path):
    error = await refused(bare, login_of(bare, key_pair(tmp_path, name="other")))
    assert error.fault.kind is Kind.AUTH


async def test_a_host_behind_a_jump_host_is_reached(bare, ssh_server_factory, own_key, login):
    bastion = ssh_server_factory(profile="")
    bastion.authorize(own_key)

    async def resolve() -> list[str]:
        return ["127.0.0.1"]

    jump = JumpHost(login_of(bastion, own_key).account, bastion.port, resolve)
    through = AccountLogin(login.account, jump)
    session = await GridFTPSession.open("127.0.0.1", bare.port, login=through)
    assert (await session.stat("/etc")).is_directory
    assert "session opened" in bastion.log.read_text() or "Accepted publickey" in bastion.log.read_text()
    await session.close()
    wrong = JumpHost(SshAccount(bastion.username, jump.account.pem, "SHA256:" + "B" * 43), bastion.port, resolve)
    with pytest.raises(FaultError) as caught:
        await GridFTPSession.open("127.0.0.1", bare.port, login=AccountLogin(login.account, wrong))
    assert caught.value.fault.kind is Kind.HOST_KEY_CHANGED
    assert caught.value.fault.advice.startswith("At the jump host")
    with pytest.raises(FaultError) as caught:
        await GridFTPSession.open("127.0.0.1", 1, login=through)
    assert caught.value.fault.kind is Kind.CONNECT_FAILED
