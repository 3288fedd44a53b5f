"""SFTP over a line that carries little: what moves is not silent, and what stands still ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp import files
from endpoints.ssh.sftp.login import SftpLogin
from endpoints.ssh.sftp.session import SftpSession
from tests.gridftp.ends import End
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer

pytestmark = NEEDS_SSHD
#: A line that carries the file in more than twice the limit.
SIZE, RATE, LIMIT = 4_000_000, 500_000, 3.0
CONTENT = os.urandom(SIZE)
#: Octets that the proxy takes at once.
CHUNK = 16 * 1024


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[End]:
    folder = tmp_path_factory.mktemp("slow")
    key = key_pair(folder)
    with SshServer(folder, sftp_only=True) as server:
        server.authorize(key)
        account = SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())
        yield End(server.port, SftpLogin(account))


class Line:
    """A proxy with a rate; `stopped`: it takes nothing more, and closes nothing."""

    def __init__(self) -> None:
        self.carried = 0
        self.stops_after: int | None = None

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                self.carried += len(data)
                if self.stops_after is not None and self.carried > self.stops_after:
                    await asyncio.Event().wait()
                await asyncio.sleep(len(data) / RATE)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def slow_session(end: End, line: Line) -> AsyncIterator[SftpSession]:
    pumps: set[asyncio.Task[None]] = set()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(end.host, end.port)
        pumps.update(map(asyncio.ensure_future, (line.pump(reader, to_writer), line.pump(to_reader, writer))))

    proxy = await asyncio.start_server(through, "127.0.0.1", 0, limit=2 * CHUNK)
    assert isinstance(end.login, SftpLogin)
    session = await end.login.open_session("127.0.0.1", proxy.sockets[0].getsockname()[1])
    try:
        yield session
    finally:
        session.abort()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        proxy.close()
        await proxy.wait_closed()


async def read(session: SftpSession, path: Path, budget: OctetBudget) -> int:
    share, octets = budget.share(), 0
    reader = await session.open_reader(str(path), 0, share, expected=SIZE)
    try:
        while data := await reader.read():
            octets += len(data)
            share.give(len(data))
    finally:
        await reader.close()
    return octets


async def write(session: SftpSession, path: Path, content: bytes) -> int:
    share = OctetBudget(len(content)).share()
    writer = await session.open_writer(str(path), 0, share, expected=len(content))
    try:
        for start in range(0, len(content), files.SMALLEST):
            await share.take(files.SMALLEST)
            await writer.write(content[start : start + files.SMALLEST])
        await writer.finish()
    finally:
        await writer.close()
    return writer.stored


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STALL_TIMEOUT", LIMIT)


@pytest.fixture(params=[1, 3])
def paths(tmp_path: Path, request: pytest.FixtureRequest) -> list[Path]:
    """One file, or several that are as large together."""
    made = [tmp_path / f"file{number}" for number in range(request.param)]
    for path in made:
        path.write_bytes(CONTENT[: SIZE // request.param])
    return made


async def test_files_that_take_longer_than_the_limit_are_read(sftp: End, paths: list[Path]) -> None:
    async with slow_session(sftp, Line()) as session:
        budget = OctetBudget(24 << 20)
        octets = await asyncio.gather(*(read(session, path, budget) for path in paths))
    assert octets == [SIZE // len(paths)] * len(paths)


def test_a_file_that_takes_longer_than_the_limit_is_written(sftp: End, tmp_path: Path) -> None:
    async def written() -> int:
        async with slow_session(sftp, Line()) as session:
            return await write(session, tmp_path / "copy", CONTENT)

    assert asyncio.run(written()) == SIZE
    assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("reads", [True, False])
async def test_a_line_that_stands_still_ends_the_session(
    sftp: End, paths: list[Path], tmp_path: Path, reads: bool
) -> None:
    line = Line()
    line.stops_after = SIZE // 4 // len(paths)
    async with slow_session(sftp, line) as session, asyncio.timeout(60):
        budget = OctetBudget(24 << 20)
        moving = read(session, paths[0], budget) if reads else write(session, tmp_path / "copy", CONTENT)
        with pytest.raises(FaultError) as caught:
            await moving
    assert caught.value.fault.kind is Kind.TIMEOUT


async def test_an_answer_that_never_comes_ends_although_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STALL_TIMEOUT", 0.02)
    answers = files.Answers()
    lost = asyncio.ensure_future(answers.wait(asyncio.get_running_loop().create_future()))
    while not lost.done():
        with contextlib.suppress(FaultError):
            await answers.wait(asyncio.sleep(0.001))
        answers.moved()
    error = lost.exception()
    assert isinstance(error, FaultError)
    assert error.fault.kind is Kind.TIMEOUT
