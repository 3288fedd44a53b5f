"""One ssh connection and one process in an account for several sessions: what they share, and what they do not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.ssh.accounts import server_link
from endpoints.ssh.accounts.account_login import AccountLogin
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from tests.gridftp.grid import open_session
from tests.gridftp.ssh_grid import NEEDS_SSHD, Relay, key_pair, until
from tests.gridftp.sshd import SshServer
from tests.waiting import eventually

pytestmark = [pytest.mark.toolkit, NEEDS_SSHD]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return key_pair(tmp_path)


@pytest.fixture
def bare(ssh_server_factory: Callable[..., SshServer], key: Path) -> Iterator[SshServer]:
    server = ssh_server_factory(profile="")
    server.authorize(key)
    yield server
    eventually(lambda: not server_processes(server))


@pytest.fixture
def login(bare: SshServer, key: Path) -> AccountLogin:
    return login_of(bare, key)


def login_of(server: SshServer, key: Path, **options: object) -> AccountLogin:
    account = SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())
    return AccountLogin(account, **options)  # type: ignore[arg-type]


def logins(server: SshServer) -> int:
    return server.log.read_text().count("Accepted publickey")


def server_processes(server: SshServer) -> list[int]:
    """The processes of our server that run in this account."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"endpoints.gridftp.agent.ssh_account" in (entry / "cmdline").read_bytes():
                environment = (entry / "environ").read_bytes()
                if os.fsencode(f"HOME={server.home}") in environment.split(b"\0"):
                    found.append(int(entry.name))
    return found


async def several(server: SshServer, login: AccountLogin, count: int) -> list[GridFTPSession]:
    return list(await asyncio.gather(*(open_session(server.port, login) for _ in range(count))))


async def ended(server: SshServer) -> None:
    await until(lambda: not server_processes(server))


async def test_sessions_at_once_share_one_login_and_one_process(bare, login):
    sessions = await several(bare, login, 6)
    assert logins(bare) == 1
    assert len(server_processes(bare)) == 1
    for number, session in enumerate(sessions):
        await session.make_directory(f"/~/{number}")
    later = await open_session(bare.port, login)
    assert logins(bare) == 1
    for session in (*sessions, later):
        await session.close()
    await ended(bare)
    assert {path.name for path in bare.home.iterdir()} >= {str(number) for number in range(6)}


async def test_a_session_that_ends_leaves_the_others_alone(bare, login):
    one, two = await several(bare, login, 2)
    one.abort()
    assert (await two.stat("/")).is_directory
    assert not one.usable
    await two.close()
    await ended(bare)


async def test_more_sessions_than_one_process_takes_get_another(bare, login, monkeypatch):
    monkeypatch.setattr(server_link, "MAX_SESSIONS", 2)
    sessions = await several(bare, login, 5)
    assert logins(bare) == 3
    for session in sessions:
        await session.close()
    await ended(bare)


async def test_another_account_or_key_never_shares(bare, login, tmp_path):
    other = key_pair(tmp_path, name="other")
    bare.authorize(other)
    sessions = [await open_session(bare.port, one) for one in (login, login_of(bare, other))]
    assert logins(bare) == 2
    for session in sessions:
        await session.close()
    await ended(bare)


async def test_the_process_dies_and_all_its_sessions_say_so(bare, login):
    sessions = await several(bare, login, 3)
    [process] = server_processes(bare)
    os.kill(process, signal.SIGKILL)
    for session in sessions:
        with pytest.raises(FaultError) as caught:
            await session.stat("/")
        assert caught.value.fault.kind is Kind.CONNECTION_RESET
        assert caught.value.fault.retryable
    again = await open_session(bare.port, login)
    assert (await again.stat("/")).is_directory
    await again.close()
    await ended(bare)


async def test_one_that_gives_up_waiting_does_not_hurt_the_others(bare, login):
    bare.set_profile("sleep 1")
    opening = [asyncio.ensure_future(open_session(bare.port, login)) for _ in range(3)]
    await asyncio.sleep(0.3)
    opening[0].cancel()
    sessions = await asyncio.gather(*opening[1:])
    assert logins(bare) == 1
    for session in sessions:
        await session.close()
    await ended(bare)


async def test_a_login_for_which_nobody_waits_any_more_is_ended(bare, login):
    bare.set_profile("sleep 1")
    opening = [asyncio.ensure_future(open_session(bare.port, login)) for _ in range(2)]
    await asyncio.sleep(0.3)
    for one in opening:
        one.cancel()
    await asyncio.gather(*opening, return_exceptions=True)
    await asyncio.sleep(1.5)
    await ended(bare)
    bare.set_profile("")
    session = await open_session(bare.port, login)
    await session.close()
    await ended(bare)


async def test_a_login_that_fails_fails_for_all_that_wait(bare, tmp_path):
    stranger = login_of(bare, key_pair(tmp_path, name="stranger"))
    opening = (open_session(bare.port, stranger) for _ in range(3))
    failures = await asyncio.gather(*opening, return_exceptions=True)
    assert [error.fault.kind for error in failures if isinstance(error, FaultError)] == [Kind.AUTH] * 3
    assert bare.log.read_text().count("Connection closed by authenticating user") <= 1


async def test_the_toolkits_server_has_a_connection_for_each_session(ssh_server_factory, key):
    server = ssh_server_factory()
    server.authorize(key)
    sessions = await several(server, login_of(server, key), 3)
    assert logins(server) == 3
    connections = {session.connection for session in sessions}
    assert len(connections) == 3
    for session in sessions:
        assert (await session.stat("/")).is_directory
        await session.close()


async def test_a_long_listing_holds_up_no_other_session(bare, login):
    folder = bare.home / "many"
    folder.mkdir()
    for number in range(20_000):
        (folder / f"{number:0200}").touch()
    one, two = await several(bare, login, 2)
    listing = one.listing("/~/many")
    first = await anext(listing)
    # The reader pauses; the rest of 5 MB waits behind the credit of its channel.
    for _ in range(3):
        assert (await two.stat("/")).is_directory
    rest = [len(batch) async for batch in listing]
    assert len(first) + sum(rest) == 20_000
    await one.close()
    await two.close()
    await ended(bare)


LIES = {
    "no frames": "head -c 100000 /dev/zero",
    "noise": "printf '\\0\\0\\0\\011\\7\\0\\0\\0\\1{}}}'",
    "a channel of its own": "printf '\\0\\0\\0\\024\\1\\0\\0\\0\\2%s' '{\"kind\": \"data\"}'; printf 0000",
    "data without credit": "printf '\\0\\0\\0\\006\\4\\0\\0\\0\\1x'; sleep 1; printf '\\0\\0\\0\\006\\4\\0\\0\\0\\1x'",
    "an end": "true",
    "an end at once": "echo no more memory >&2; exit",
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_program_that_is_not_ours_is_a_fault(bare, login, lie):
    fake = bare.home / "python3"
    begun = 'printf "%s cached\\n%s ready\\n" "$8" "$8"'
    fake.write_text(f"#!/bin/sh\ncase $4 in -u) {begun}; {LIES[lie]}; exec sleep 1;; *) echo +3.9.0;; esac\n")
    fake.chmod(0o755)
    bare.set_profile(f"export PATH={bare.home}:$PATH")
    with pytest.raises(FaultError) as caught:
        await open_session(bare.port, login)
    assert caught.value.fault.kind in (Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN, Kind.TIMEOUT)
    assert caught.value.fault.retryable
    assert logins(bare) == 1


def test_an_event_loop_that_has_ended_is_forgotten_with_its_links(bare, login):
    async def use() -> None:
        for session in await several(bare, login, 2):
            await session.close()

    gc.collect()
    before = len(server_link._places)
    for _ in range(3):
        asyncio.run(use())
    gc.collect()
    assert len(server_link._places) <= before
    eventually(lambda: not server_processes(bare))


async def talk_on(session: GridFTPSession) -> None:
    while True:
        await session.stat("/")


async def test_an_ssh_connection_that_is_cut_ends_its_sessions(bare, login):
    async with Relay(bare.port, after=12_000, hang=False) as relay:
        session = await GridFTPSession.open("127.0.0.1", relay.port, login=login)
        with pytest.raises(FaultError) as caught:
            await asyncio.wait_for(talk_on(session), 60)
        assert caught.value.fault.retryable
    await ended(bare)
