"""Servers over ssh that hang, lie or flood: left in bounded time and memory, each with its own fault."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import struct
import threading

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.ssh.sshftp_login import SshLogin
from tests.gridftp import sshd
from tests.gridftp.grid import open_session
from tests.gridftp.ssh_grid import (
    NEEDS_SSHD,
    Relay,
    key,
    key_pair,
    login,
    nothing_stays,
    opened,
    refusal,
    server,
    threads,
    until,
)
from tests.waiting import eventually

pytestmark = [pytest.mark.toolkit, NEEDS_SSHD]

__all__ = ["key", "login", "nothing_stays", "server"]


@pytest.mark.parametrize("hang", [True, False], ids=["hangs", "hangs up"])
@pytest.mark.parametrize("after", [0, 5, 45, 700, 1400, 1700, 2300, 2600, 3000])
async def test_a_server_that_stops_in_the_middle_of_the_login_holds_nobody_up(server, login, after, hang):
    async with Relay(server.port, after=after, hang=hang) as relay:
        fault = await refusal(relay.port, login, timeout=1.5)
    assert fault.retryable
    if hang:
        assert fault.kind is Kind.TIMEOUT
    else:
        assert fault.kind in (Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN, Kind.ENDPOINT_ERROR)


GIANT = struct.pack(">I", 0x7FFFFFF0)


@pytest.mark.parametrize(
    "words",
    [
        b"220 this is a GridFTP server\r\n" * 10,
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-liar\r\n" + GIANT + bytes(100_000),
        b"SSH-2.0-liar\r\n" + bytes(100_000),
        b"x" * 300_000,
        b"\xff\xfe" * 100 + b"\r\n",
        b"SSH-2.0-liar\r\n" + random.Random(1).randbytes(5000),
    ],
    ids=["ftp", "http", "ssh-1", "giant packet", "zeros", "endless line", "not text", "noise"],
)
async def test_what_is_not_ssh_is_distinguished_and_costs_little(login, words):
    done = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        with contextlib.suppress(OSError):
            await reader.read(100_000)
        writer.close()
        done.set()

    liar = await asyncio.start_server(talk, "127.0.0.1", 0)
    fault = await refusal(liar.sockets[0].getsockname()[1], login, timeout=10)
    async with asyncio.timeout(5):
        await done.wait()
    liar.close()
    assert fault.kind in (Kind.ENDPOINT_ERROR, Kind.CONNECTION_RESET)
    assert fault.advice
    assert not any(said in fault.raw for said in ("this is a", "Bad Request", "xxx")), "what another service said"


class Flood(paramiko.ServerInterface):
    """Lets everybody in, greets, and once `begin` is set sends without regard to the window of the channel."""

    def __init__(self) -> None:
        self.begin = threading.Event()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._flood, args=[channel], daemon=True).start()
        return True

    def _flood(self, channel: paramiko.Channel) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            channel.sendall(b"220 flood\r\n")
            self.begin.wait(30)
            channel.out_window_size = 2**31
            for _ in range(2000):
                channel.sendall(b"x" * 32768)


async def test_a_server_that_does_not_keep_to_the_window_is_left_before_it_fills_the_memory(key, tmp_path):
    host = paramiko.Ed25519Key.from_private_key_file(str(key_pair(tmp_path, name="host")))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        login = SshLogin("alice", key.read_bytes(), sshd.fingerprint(tmp_path / "host"))
        connecting = asyncio.ensure_future(login.connect("127.0.0.1", listener.getsockname()[1]))
        accepted, _ = await asyncio.to_thread(listener.accept)
        liar = paramiko.Transport(accepted)
        liar.add_server_key(host)
        await asyncio.to_thread(liar.start_server, server=(flood := Flood()))
        connection = await connecting
    connection.pause()
    flood.begin.set()
    ours = next(one for one in threads() if isinstance(one, paramiko.Transport) and one is not liar)
    await until(lambda: not ours.is_alive())
    connection.resume()
    async with asyncio.timeout(10):
        with pytest.raises(FaultError):
            await connection.request("NOOP")
    connection.abort()
    liar.close()
    await asyncio.sleep(0.01)


async def test_a_login_that_nobody_waits_for_any_more_ends(server, login):
    async with Relay(server.port, after=1400, hang=True) as relay:
        waiting = asyncio.ensure_future(open_session(relay.port, login))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_fifty_sessions_leave_no_thread_and_no_descriptor(server, login):
    async with opened(server.port, login):
        pass
    eventually(lambda: not server.sessions())
    await until(lambda: not threads())
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        sessions = await asyncio.gather(*(open_session(server.port, login) for _ in range(10)))
        assert all(session.usable for session in sessions)
        assert len(threads()) == 2 * 10
        for session in sessions[:5]:
            await session.close()
        for session in sessions[5:]:
            session.connection.abort()
        await until(lambda: not threads())
    await until(lambda: len(os.listdir("/proc/self/fd")) <= files)
    await until(lambda: not server.sessions())
