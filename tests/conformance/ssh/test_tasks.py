"""Tasks from and to accounts on which nothing is installed: every arrival by its checksum, and its way.

Bare accounts run our server by python3, or have SFTP only. The other ends are the toolkit's server and each other.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from endpoints.ssh.accounts import account_login
from endpoints.ssh.accounts.account_login import AccountLogin
from endpoints.ssh.connection import JumpHost, SshAccount
from endpoints.ssh.keys import parse_ssh_key
from tests.gridftp.ends import End
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.streamed_tasks import StreamedTask, tree
from tests.gridftp.toolkit import ToolkitServer, hand_over
from workers.sessions.pool import THIRD_PARTY, Address
from workers.ways.trial import ACCOUNT_REACH_SECONDS, ReachOfAccounts

pytestmark = [pytest.mark.toolkit, NEEDS_SSHD]
VERIFIED = {"verify_checksum": True, "preserve_timestamp": True}
KINDS = ("python", "sftp", "toolkit", "gridftp")


@pytest.fixture(scope="module")
def accounts(grid_home: Path) -> Iterator[dict[str, End]]:
    """An account with python3, one with SFTP only, one with the toolkit's server, and a server of the toolkit."""
    folder = grid_home / "ssh-tasks"
    folder.mkdir(mode=0o755)
    key = key_pair(folder)
    with ExitStack() as running:

        def account(name: str, **options: object) -> End:
            place = folder / name
            place.mkdir(mode=0o711)
            server = running.enter_context(SshServer(place, **options))  # type: ignore[arg-type]
            server.authorize(key)
            login = AccountLogin(SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint()))
            return End(server.port, login)

        yield {
            "python": account("python", profile=""),
            "sftp": account("sftp", sftp_only=True),
            "toolkit": account("toolkit"),
            "gridftp": End(running.enter_context(ToolkitServer(folder)).port),
        }


@pytest.fixture
def place(grid_home: Path) -> Path:
    """Not below pytest's own folder, which is closed to the account behind the toolkit's server."""
    served = grid_home / f"served-{secrets.token_hex(4)}"
    served.mkdir(mode=0o755)
    return served


@pytest.fixture
def data(place: Path) -> Path:
    source = place / "from"
    (source / "deep" / "er").mkdir(parents=True)
    for number in range(25):
        (source / f"small-{number}").write_bytes(os.urandom(number * 1000))
    (source / "deep" / "er" / "with blanks & more").write_bytes(os.urandom(300_000))
    (source / "deep" / "large").write_bytes(os.urandom(9_000_001))
    (place / "to").mkdir()
    hand_over(place, stop_at=Path(tempfile.gettempdir()))
    return source


def ways(task: StreamedTask) -> list[str]:
    """The events about the way of the data."""
    return [event.description for event in task.store.events if event.code == "DATA_WAY"]


async def connections_ended() -> None:
    """asyncssh ends a connection in several turns of the loop, and one behind a jump host after that one."""
    for _ in range(20):
        await asyncio.sleep(0)


async def moved(source: End, destination: End, data: Path, there: Path, **options: object) -> StreamedTask:
    task = StreamedTask(source, destination, [(f"{data}/", f"{there}/", True)], VERIFIED | options)
    await task.run()
    await connections_ended()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(data)
    return task


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        ("python", "python", "open data connections with each other"),
        ("python", "toolkit", "open data connections with each other"),
        ("toolkit", "python", "open data connections with each other"),
        ("sftp", "python", "Files of the source are"),
        ("python", "sftp", "Files of the destination are"),
        ("sftp", "sftp", "Files of the source and of the destination are"),
        ("toolkit", "sftp", "Files of the destination are"),
        ("sftp", "toolkit", "Files of the source are"),
    ],
)
async def test_a_tree_goes_between_accounts(accounts, data, place, source, destination, words):
    task = await moved(accounts[source], accounts[destination], data, place / "to")
    [route] = ways(task)
    assert words in route
    assert "The source:" in route
    assert "The destination:" in route


async def test_data_that_must_be_encrypted_go_through_ssh_where_the_servers_cannot_encrypt(accounts, data, place):
    task = await moved(accounts["python"], accounts["python"], data, place / "to", encrypt_data=True)
    assert {one.level for one in task.store.protections} == {"encrypted"}


async def test_without_a_direct_way_the_data_go_through_ssh(accounts, data, place):
    bare = accounts["python"]
    task = StreamedTask(bare, bare, [(f"{data}/", f"{place}/to/", True)], VERIFIED)
    server = Address("127.0.0.1", bare.port)
    task.pool.refuse(THIRD_PARTY, server, server, "No route to host")
    await task.run()
    await connections_ended()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(place / "to") == tree(data)
    [route] = ways(task)
    assert "through ssh" in route
    assert "No route to host" in route
    assert {one.level for one in task.store.protections} == {"encrypted"}


async def test_servers_of_accounts_that_do_not_reach_each_other_in_time_use_ssh_and_say_so(
    accounts, data, place, monkeypatch
):
    """As where a firewall drops the packets. An account has more time than an agent."""
    monkeypatch.setattr(ReachOfAccounts, "seconds", 0.0)
    task = await moved(accounts["python"], accounts["toolkit"], data, place / "to")
    assert ReachOfAccounts.not_reached.advice == f"The source made no connection within {ACCOUNT_REACH_SECONDS:.0f} s."
    assert f"could not connect directly: {ReachOfAccounts.not_reached.advice}" in ways(task)[-1]
    assert not any("relayed" in way for way in ways(task))


async def test_behind_a_jump_host_the_data_take_the_way_of_the_login(accounts, data, place):
    """The service knows the host's name only: the address that its server names is not one of the endpoint's."""
    bare = accounts["python"]
    login = bare.login
    assert isinstance(login, AccountLogin)

    async def resolve() -> list[str]:
        return ["127.0.0.1"]

    behind = End(bare.port, replace(login, jump=JumpHost(login.account, bare.port, resolve)), host="localhost")
    task = await moved(bare, behind, data, place / "to")
    assert "through ssh" in ways(task)[-1]


async def test_an_ssh_server_that_forwards_nothing_is_used_by_sftp(grid_home, accounts, data, place, monkeypatch):
    monkeypatch.setattr(account_login, "_unforwarded", set())
    folder = grid_home / "no-forwarding"
    folder.mkdir(mode=0o711)
    key = key_pair(folder)
    lines = ("AllowTcpForwarding no", "Subsystem sftp /usr/lib/openssh/sftp-server")
    with SshServer(folder, *lines, profile="") as server:
        server.authorize(key)
        login = AccountLogin(SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint()))
        closed = End(server.port, login)
        task = StreamedTask(closed, accounts["python"], [(f"{data}/", f"{place}/to/", True)], VERIFIED)
        task.pool.refuse(
            THIRD_PARTY, Address("127.0.0.1", server.port), Address("127.0.0.1", accounts["python"].port), "no"
        )
        await task.run()
        await connections_ended()
    assert task.store.status == "SUCCEEDED"
    assert tree(place / "to") == tree(data)
    assert "forwards no data connections" in ways(task)[-1]
