"""Reading a part of a file from servers that do not begin where REST says: the octets are right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.streams import mode_s, restarts
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.gridftp.wire.server_memory import ServerMemory
from tests.gridftp.odd_ftp import OddFtp, OddSession

CONTENT = os.urandom(6_000_000)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are used again by other servers of the tests."""
    for name in ("_reads", "_writes"):
        monkeypatch.setattr(restarts, name, ServerMemory[bool]())


class Forgets(OddFtp):
    """Accepts REST, and sends the file from its beginning."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        return "350 ok" if verb == "REST" else None


class Unknown(OddFtp):
    unknown = frozenset({"REST"})


async def read(session: GridFTPSession, path: str, offset: int) -> bytes:
    share = OctetBudget(4 << 20).share()
    reader = await mode_s.open_reader(session, path, offset, share)
    read = b""
    try:
        while data := await reader.read():
            read += data
            share.give(len(data))
    finally:
        await reader.close()
    return read


@pytest.mark.parametrize("kind", [OddFtp, Forgets, Unknown])
@pytest.mark.parametrize("size", [2, 5, 6_000_000])
async def test_a_part_of_a_file_is_read_from_where_it_begins(tmp_path: Path, kind: type[OddFtp], size: int) -> None:
    (tmp_path / "file").write_bytes(CONTENT[:size])
    with kind(tmp_path) as server:
        session = await GridFTPSession.open("127.0.0.1", server.port)
        for offset in (size // 2, 1, size - 1, 0):
            assert await read(session, "/file", offset) == CONTENT[offset:size]
        asked = sum(verb == "RETR" for verb, _ in server.log)
        assert asked == (4 if kind is Unknown else 5), "the server is tried once"
        await session.close()
