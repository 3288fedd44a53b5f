"""ssh servers that flood their client: each is ended within its budget, and is not asked again at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.wire import put_off
from endpoints.sessions.remote import open_session
from endpoints.ssh.bounded_connection import BoundedConnection
from endpoints.ssh.connection import JumpHost, SshAccount, connect, shown_host_key
from endpoints.ssh.message_budget import LOGIN_MESSAGES, SPARE_MESSAGES
from endpoints.ssh.sftp.login import SftpLogin
from endpoints.ssh.sshftp_login import SshLogin
from tests.gridftp.flooding_ssh import FLOODS, flooding
from tests.gridftp.lying_sftp import lying
from tests.gridftp.ssh_grid import until

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def servers() -> Iterator[None]:
    """Nothing is put off after a test."""
    yield
    put_off.SERVERS._servers.clear()


def packet(kind: int, content: bytes) -> bytes:
    """A message before the first key exchange (RFC 4253 section 6)."""
    padding = -(5 + 1 + len(content)) % 8 + 8
    return (2 + len(content) + padding).to_bytes(4, "big") + bytes([padding, kind]) + content + bytes(padding)


#: The octets that a server sends before the login: first, and then again and again.
BEFORE_LOGIN = {
    "empty lines": (b"", b"\n"),
    "empty lines with CR": (b"", b"\r\n"),
    "lines": (b"", b"Welcome to this host.\r\n"),
    "a line without end": (b"", b"x" * 100),
    "ignore": (b"SSH-2.0-liar\r\n", packet(2, bytes(4))),
    "debug": (b"SSH-2.0-liar\r\n", packet(4, bytes(9))),
    "unknown": (b"SSH-2.0-liar\r\n", packet(15, b"")),
}


@asynccontextmanager
async def raw(first: bytes, again: bytes) -> AsyncIterator[int]:
    """A server that sends this without an end; its port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        with contextlib.suppress(OSError):
            while True:
                writer.write(again * 1000)
                await writer.drain()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("name", BEFORE_LOGIN)
async def test_a_flood_before_the_login_ends_and_the_server_is_put_off(
    name: str, account: SshAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = 0
    read = BoundedConnection._recv_pkthdr

    def counted(self: BoundedConnection) -> bool:
        nonlocal messages
        messages += 1
        return read(self)

    monkeypatch.setattr(BoundedConnection, "_recv_pkthdr", counted)
    async with raw(*BEFORE_LOGIN[name]) as port:
        for _ in range(2):
            with pytest.raises(FaultError) as caught:
                await connect("127.0.0.1", port, account, timeout=30)
            assert (caught.value.fault.kind, caught.value.fault.scope) == (Kind.ENDPOINT_ERROR, FaultScope.ENDPOINT)
            assert "put off" in caught.value.fault.advice
        with pytest.raises(FaultError, match="it sent"):
            await shown_host_key("127.0.0.1", port, timeout=30)
    assert messages <= LOGIN_MESSAGES + 2


@pytest.fixture
async def account(tmp_path: Path) -> SshAccount:
    key = asyncssh.generate_private_key("ssh-ed25519")
    return SshAccount("alice", key.export_private_key(), "SHA256:" + "a" * 43)


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_after_the_login_ends_the_session_and_the_server_is_put_off(name: str, tmp_path: Path) -> None:
    async with flooding(tmp_path, FLOODS[name]) as flooder:
        login = SftpLogin(flooder.account)
        session = await open_session("127.0.0.1", flooder.port, login)
        await until(lambda: not session.usable)
        for _ in range(2):
            with pytest.raises(FaultError) as caught:
                await open_session("127.0.0.1", flooder.port, login)
            assert (caught.value.fault.kind, caught.value.fault.scope) == (Kind.ENDPOINT_ERROR, FaultScope.ENDPOINT)
        assert flooder.logins == 1


@pytest.mark.parametrize("name", ["ignore", "unknown", "window"])
async def test_a_flood_on_the_connection_of_a_gridftp_server_ends_it(name: str, tmp_path: Path) -> None:
    async with flooding(tmp_path, FLOODS[name]) as flooder:
        account = flooder.account
        login = SshLogin(account.username, account.pem, account.host_key)
        connection = await login.connect("127.0.0.1", flooder.port)
        await until(lambda: not connection.usable)


async def test_a_server_that_floods_behind_a_jump_host_is_not_taken_for_another_one(tmp_path: Path) -> None:
    async with lying(tmp_path) as jump, raw(*BEFORE_LOGIN["empty lines"]) as port:
        assert isinstance(jump.login, SftpLogin)
        account = jump.login.account

        async def resolve() -> list[str]:
            return ["127.0.0.1"]

        with pytest.raises(FaultError):
            await connect("127.0.0.1", port, account, timeout=20, jump=JumpHost(account, jump.port, resolve))
        put_off.SERVERS.check("127.0.0.1", port)
        put_off.SERVERS.check("127.0.0.1", jump.port)


@pytest.mark.parametrize("name", ["ignore", "unknown", "key exchange"])
async def test_a_task_beside_a_flood_has_its_time(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One loop, as in a worker: the flood has one budget, however often its task tries again."""
    messages = 0
    read = BoundedConnection._recv_packet

    def counted(self: BoundedConnection) -> bool:
        nonlocal messages
        messages += self.server_address[1] == flooder.port
        return read(self)

    async def try_again_and_again(login: SftpLogin) -> None:
        while not is_over.is_set():
            with contextlib.suppress(FaultError):
                session = await open_session("127.0.0.1", flooder.port, login)
                while session.usable:
                    await session.stat("/")
            await asyncio.sleep(0)

    monkeypatch.setattr(BoundedConnection, "_recv_packet", counted)
    (tmp_path / "data").write_bytes(bytes(8_000_000))
    (tmp_path / "flood").mkdir()
    is_over = asyncio.Event()
    async with flooding(tmp_path / "flood", FLOODS[name]) as flooder, lying(tmp_path) as end:
        trying = asyncio.ensure_future(try_again_and_again(SftpLogin(flooder.account)))
        session = await open_session("127.0.0.1", end.port, end.login)
        while flooder.logins == 0:
            await session.stat(str(tmp_path / "data"))
        for _ in range(5):
            assert await session.checksum(str(tmp_path / "data"), "MD5")
        is_over.set()
        await trying
        await session.stat(str(tmp_path / "data"))
        await session.close()
    assert flooder.logins == 1
    # The messages that its own requests have earned come on top.
    assert messages < LOGIN_MESSAGES + 8 * SPARE_MESSAGES


async def test_an_honest_server_that_sends_two_messages_for_one_is_within_its_budget(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(3_000_000))
    async with lying(tmp_path) as end:
        session = await open_session("127.0.0.1", end.port, end.login)
        for _ in range(SPARE_MESSAGES // 50):
            await asyncio.gather(*(session.stat(str(tmp_path / "data")) for _ in range(64)))
        assert await session.checksum(str(tmp_path / "data"), "MD5")
        await session.stat(str(tmp_path / "data"))
        await session.close()
