"""Listings of SFTP servers that send entries without end, or names that can be none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import asyncssh
import pytest
from asyncssh.constants import FXP_READDIR

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.listing import Allowance
from endpoints.sessions.remote import RemoteSession, open_session
from tests.gridftp.lying_sftp import LyingSftp, lying

pytestmark = pytest.mark.timeout(60)


def named(*names: bytes, without_end: bool = False) -> type[LyingSftp]:
    """A server each of whose folders has these names."""

    class Named(LyingSftp):
        async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
            once = True
            while once or without_end:
                once = False
                for name in names:
                    yield asyncssh.SFTPName(name, attrs=asyncssh.SFTPAttrs(permissions=0o100644, size=1))

    return Named


async def listed(session: RemoteSession, allowance: Allowance) -> Sequence[Entry]:
    return [entry async for batch in session.listing("/", allowance) for entry in batch]


@pytest.mark.parametrize("name", [b".", b"..", b"a", b"", b"a\0b"])
async def test_entries_without_end_are_counted_whatever_their_name_is(name: bytes, tmp_path: Path) -> None:
    async with lying(tmp_path, named(name, without_end=True)) as end:
        session = await open_session("127.0.0.1", end.port, end.login)
        with pytest.raises(FaultError) as caught:
            await listed(session, Allowance(lines=1000))
        assert caught.value.fault.kind is Kind.LIMIT_EXCEEDED
        await session.close()


async def test_answers_without_names_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: object, packet: asyncssh.packet.SSHPacket) -> tuple[list[object], bool]:
        packet.get_string()
        return [], False

    handler = asyncssh.sftp.SFTPServerHandler
    monkeypatch.setitem(handler._packet_handlers, FXP_READDIR, nothing)
    async with lying(tmp_path) as end:
        session = await open_session("127.0.0.1", end.port, end.login)
        with pytest.raises(FaultError) as caught:
            await listed(session, Allowance(lines=1000))
        assert caught.value.fault.kind is Kind.LIMIT_EXCEEDED
        await session.close()


@pytest.mark.parametrize("name", [b"", b"a\0b", b"\0", b"a/b", b"/", b"../a"])
async def test_a_name_that_can_be_none_makes_the_listing_incomplete(name: bytes, tmp_path: Path) -> None:
    async with lying(tmp_path, named(b"good", name, b"better")) as end:
        session = await open_session("127.0.0.1", end.port, end.login)
        with pytest.raises(FaultError) as caught:
            await listed(session, Allowance())
        assert caught.value.fault.kind is Kind.ENDPOINT_ERROR
        assert "not the name of an entry" in caught.value.fault.raw
        some = Allowance()
        some.partial = True
        assert [entry.name for entry in await listed(session, some)] == ["good", "better"]
        assert some.incomplete is not None
        await session.close()


async def test_a_folder_with_many_names_is_listed_whole(tmp_path: Path) -> None:
    names = [b"file %d" % number for number in range(1234)]
    async with lying(tmp_path, named(b".", b"..", *names)) as end:
        session = await open_session("127.0.0.1", end.port, end.login)
        assert [entry.name.encode() for entry in await listed(session, Allowance())] == names
        await session.close()
