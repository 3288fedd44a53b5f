"""Plain FTP servers that do less than others, or do it late: what a session finds out on them nevertheless."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from endpoints.gridftp import connection, listing
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind
from endpoints.gridftp.listing import Allowance
from tests.gridftp.odd_ftp import OddFtp, OddSession

FACTS = (*(OddFtp.features or ()), "MLST type*;size*;modify*;")


class WithFacts(OddFtp):
    features: tuple[str, ...] | None = FACTS


class Bare(OddFtp):
    """Knows what RFC 959 demands of a server, and EPSV."""

    features = None
    unknown = frozenset({"SIZE", "MDTM", "MLST", "MLSD", "FEAT", "REST"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "empty").mkdir()
    for name in ("f1", "f2", ".hidden", "Grüße & *", "sub/g"):
        (tmp_path / "in" / name).write_text(name)
    return tmp_path


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[OddFtp], Awaitable[GridFTPSession]]]:
    async with AsyncExitStack() as stack:

        @asynccontextmanager
        async def session(server: OddFtp) -> AsyncIterator[GridFTPSession]:
            with server:
                one = await GridFTPSession.open("127.0.0.1", server.port)
                try:
                    yield one
                finally:
                    await one.close()

        async def enter(server: OddFtp) -> GridFTPSession:
            return await stack.enter_async_context(session(server))

        yield enter


Opened = Callable[[OddFtp], Awaitable[GridFTPSession]]


async def listed(session: GridFTPSession, path: str, allowance: Allowance | None = None) -> dict[str, Entry]:
    return {entry.name: entry async for batch in session.listing(path, allowance) for entry in batch}


async def kind_of(session: GridFTPSession, path: str) -> Kind:
    with pytest.raises(FaultError) as caught:
        await listed(session, path)
    return caught.value.fault.kind


def refusing(kind: type[OddFtp], *verbs: str, reply: str, folders: bool = False) -> type[OddFtp]:
    """A server that answers these commands so, about files, or about folders too."""

    class Refusing(kind):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            named = self.real(session.path(argument))
            return reply if verb in verbs and (folders or not os.path.isdir(named)) else None

    return Refusing


# ---- the facts of one path


@pytest.mark.parametrize("folders", [False, True])
@pytest.mark.parametrize(
    "reply", ["500 what?", "501 bad argument", "502 no", "504 no", "550 No such file or directory"]
)
async def test_mlst_may_be_refused(root: Path, opened: Opened, reply: str, folders: bool) -> None:
    session = await opened(refusing(WithFacts, "MLST", reply=reply, folders=folders)(root))
    file = await session.stat("/in/f1")
    assert (file.kind, file.size, file.name) == ("file", 2, "f1")
    assert file.modified is not None
    assert (await session.stat("/in/sub")).kind == "dir"
    assert await session.make_directories(["/in/sub"]) == [False]
    with pytest.raises(FaultError) as caught:
        await session.stat("/in/missing")
    assert caught.value.fault.kind is Kind.FILE_NOT_FOUND
    assert set(await listed(session, "/in")) == {"f1", "f2", ".hidden", "Grüße & *", "sub", "empty"}


@pytest.mark.parametrize("reply", ["500 what?", "502 no", "504 no", "550 I do not say"])
async def test_without_size_the_listing_of_the_folder_above_shows_it(root: Path, opened: Opened, reply: str) -> None:
    if reply.startswith("550"):
        kind = refusing(refusing(WithFacts, "MLST", reply=reply), "SIZE", reply="502 no")
    else:
        kind = refusing(Bare, "SIZE", "MDTM", "MLST", "FEAT", reply=reply, folders=True)
    session = await opened(kind(root))
    found = await asyncio.gather(*(session.stat(f"/in/{name}") for name in ("f1", "Grüße & *", "sub/g", ".hidden")))
    assert [(one.name, one.kind, one.size) for one in found] == [
        ("f1", "file", 2), ("Grüße & *", "file", 11), ("g", "file", 5), (".hidden", "file", 7),
    ]  # fmt: skip
    assert (await session.stat("/in")).kind == "dir"
    assert (await session.stat("/")).kind == "dir"
    for missing in ("/in/f3", "/none/f1"):
        with pytest.raises(FaultError) as caught:
            await session.stat(missing)
        assert caught.value.fault.kind is Kind.FILE_NOT_FOUND


async def test_many_paths_of_a_folder_take_few_listings_and_later_ones_a_new_one(root: Path, opened: Opened) -> None:
    server = Bare(root)
    session = await opened(server)
    (root / "many").mkdir()
    for number in range(200):
        (root / "many" / f"f{number}").write_bytes(b"x" * number)
    found = await asyncio.gather(*(session.stat(f"/many/f{number}") for number in range(200)))
    assert [one.size for one in found] == list(range(200))
    assert sum(verb == "LIST" for verb, _ in server.log) <= 4
    (root / "many" / "f7").write_bytes(b"changed")
    assert (await session.stat("/many/f7")).size == 7


async def test_a_name_that_an_incomplete_listing_lacks_is_not_missing(root: Path, opened: Opened) -> None:
    class Cut(Bare):
        def listing(self, folder: bytes, verb: str) -> bytes:
            return super().listing(folder, verb)[:-4]

    session = await opened(Cut(root))
    assert (await session.stat("/in/f1")).size == 2
    with pytest.raises(FaultError) as caught:
        await session.stat("/in/zzz")
    assert caught.value.fault.kind is Kind.ENDPOINT_ERROR


# ---- forms of LIST, and empty folders


def empty(session: OddSession) -> str:
    session.say("150 here")
    session.data().close()
    return "226 Transfer complete"


@pytest.mark.parametrize(
    "reply",
    ["550 No such file or directory", "500 what?", "501 bad argument", "504 no", "450 No files found", "nothing"],
)
@pytest.mark.parametrize("bare", [False, True])
async def test_list_is_understood_with_a_path_only_or_for_the_current_folder_only(
    root: Path, opened: Opened, reply: str, bare: bool
) -> None:
    class Simple(OddFtp):
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb != "LIST" or not (argument if bare else argument.startswith(b"-")):
                return None
            return empty(session) if reply == "nothing" else reply

    server = Simple(root)
    session = await opened(server)
    assert set(await listed(session, "/in/empty")) == set()
    assert set(await listed(session, "/in")) == {"f1", "f2", ".hidden", "Grüße & *", "sub", "empty"}
    assert set(await listed(session, "/in/sub")) == {"g"}
    asked = sum(verb == "LIST" for verb, _ in server.log)
    assert set(await listed(session, "/in/empty")) == set()
    assert sum(verb == "LIST" for verb, _ in server.log) == asked + 1, "the form is known"
    assert await kind_of(session, "/in/missing") is Kind.FILE_NOT_FOUND


@pytest.mark.parametrize(
    "reply", ["550 No files found.", "450 No files found", "550 No such file or directory", "550 Directory is empty"]
)
@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
async def test_an_empty_folder_may_be_refused_and_a_missing_one_is_missing(
    root: Path, opened: Opened, kind: type[OddFtp], reply: str
) -> None:
    class NoFiles(kind):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb in ("LIST", "MLSD"):
                folder = self.real(session.path(argument.removeprefix(b"-a ").removeprefix(b"-a")))
                return reply if not os.path.isdir(folder) or not os.listdir(folder) else None
            return None

    session = await opened(NoFiles(root))
    assert await listed(session, "/in/empty") == {}
    assert set(await listed(session, "/in/sub")) == {"g"}
    assert await listed(session, "/in/empty") == {}
    assert await kind_of(session, "/in/missing") is Kind.FILE_NOT_FOUND


@pytest.mark.parametrize(
    "reply", ["550 Permission denied", "550 Failed", "450 Busy", "451 Local error", "552 Too much"]
)
@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
async def test_other_refusals_are_faults_and_no_empty_folders(
    root: Path, opened: Opened, kind: type[OddFtp], reply: str
) -> None:
    session = await opened(refusing(kind, "LIST", "MLSD", reply=reply, folders=True)(root))
    assert await kind_of(session, "/in/empty") is not Kind.FILE_NOT_FOUND


async def test_a_server_that_names_mlsd_and_does_not_know_it_is_listed_by_list(root: Path, opened: Opened) -> None:
    session = await opened(refusing(WithFacts, "MLSD", reply="502 no", folders=True)(root))
    assert set(await listed(session, "/in/sub")) == {"g"}


async def test_a_folder_with_the_characters_of_a_pattern_is_itself(root: Path, opened: Opened) -> None:
    class Globs(OddFtp):
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            return "550 what a pattern matches" if verb == "LIST" and b"[" in argument else None

    (root / "a[1]").mkdir()
    (root / "a[1]" / "right").write_text("")
    session = await opened(Globs(root))
    assert set(await listed(session, "/a[1]")) == {"right"}


# ---- incomplete listings


@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
@pytest.mark.parametrize(
    ("end", "extra", "quoted"),
    [
        ("226 Transfer complete", b"-rw-r--r-- what is this\r\n", "what is this"),
        ("226 Transfer complete", b"Type=file;Size=x; odd\r\n", "odd"),
        ("226 Transfer complete", b"-rw-r--r--   1 a b 12 Jan 15 12:00 unen", "unen"),
        ("226 Output truncated to 6 matches", b"", "truncated"),
        ("226 12 matches total", b"", "12 matches"),
        ("426 Connection closed; transfer aborted.", b"", "aborted"),
        ("451 Disk error while reading", b"", "Disk error"),
    ],
)
async def test_a_listing_is_complete_or_it_is_a_fault(
    root: Path, opened: Opened, kind: type[OddFtp], end: str, extra: bytes, quoted: str
) -> None:
    class Odd(kind):  # type: ignore[valid-type, misc]
        end_of_listing = end

        def listing(self, folder: bytes, verb: str) -> bytes:
            return bytes(super().listing(folder, verb)) + extra

    session = await opened(Odd(root))
    with pytest.raises(FaultError, match=quoted):
        await listed(session, "/in")


# ---- slow servers


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but listings must be answered at once."""
    defaults = ControlConnection.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "stall_timeout", 0.2)
    monkeypatch.setattr(connection, "STALL_TIMEOUT", 0.2)
    monkeypatch.setattr(listing, "STALL_TIMEOUT", 0.2)


@pytest.mark.parametrize("late", ["the command", "the data"])
@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
async def test_a_listing_that_takes_long_is_waited_for_and_asked_for_once(
    root: Path, opened: Opened, impatient: None, kind: type[OddFtp], late: str
) -> None:
    time_to_go = threading.Event()

    class Tape(kind):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb in ("LIST", "MLSD"):
                if late == "the data":
                    session.say("150 mounting the tape")
                time_to_go.wait(20)
            return None

    server = Tape(root)
    session = await opened(server)
    asking = asyncio.create_task(listed(session, "/in/sub"))
    await asyncio.sleep(1.0)  # five times the limit of other commands
    assert not asking.done()
    time_to_go.set()
    assert set(await asking) == {"g"}
    assert sum(verb in ("LIST", "MLSD") for verb, _ in server.log) == 1


@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
async def test_a_listing_that_never_comes_is_given_up_after_its_own_limit(
    root: Path, opened: Opened, kind: type[OddFtp]
) -> None:
    never = threading.Event()

    class Hung(kind):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb in ("LIST", "MLSD"):
                never.wait(20)
            return None

    session = await opened(Hung(root))
    with pytest.raises(FaultError) as caught:
        await listed(session, "/in", Allowance(seconds=0.3))
    never.set()
    assert caught.value.fault.kind is Kind.TIMEOUT


async def test_tcp_looks_after_a_silent_server(root: Path, opened: Opened) -> None:
    session = await opened(OddFtp(root))
    transport = session.connection._transport
    assert transport is not None
    sock: socket.socket = transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    idle, interval, count = (
        sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name, _ in connection.KEEPALIVE
    )
    assert idle + interval * count <= 180


# ---- one thing at a time


class Hasty(WithFacts):
    """Answers a command that arrives during a listing before the end of that listing, as ProFTPD does."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.early: list[bytes] = []

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb not in ("MLSD", "LIST") or verb in self.unknown:
            return None
        folder = self.real(session.path(argument.removeprefix(b"-a ")))
        session.say("150 here")
        with session.data() as data:
            data.sendall(self.listing(folder, verb))
            while select.select([session.control], [], [], 0.3)[0]:
                self.early.append(session.control.recv(4096))
                session.say("450 data transfer in progress")
        return "226 done"


class HastyAndBare(Hasty):
    features = None
    unknown = Bare.unknown - {"SIZE", "MDTM", "REST"}


@pytest.mark.parametrize("kind", [Hasty, HastyAndBare])
async def test_nothing_is_sent_while_a_folder_is_listed(root: Path, opened: Opened, kind: type[Hasty]) -> None:
    server = kind(root)
    session = await opened(server)
    listings = [listed(session, "/in"), listed(session, "/in/sub")]
    found = [asyncio.create_task(one) for one in listings]
    await asyncio.sleep(0.1)
    sizes = await asyncio.gather(*(session.stat(f"/in/{name}") for name in ("f1", "sub/g", "f2")))
    assert [one.size for one in sizes] == [2, 5, 2]
    assert [set(await one) for one in found] == [{"f1", "f2", ".hidden", "Grüße & *", "sub", "empty"}, {"g"}]
    assert server.early == []


async def test_the_consumer_of_a_long_listing_may_ask_in_the_middle_of_it(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "AHEAD", 2)
    session = await opened(WithFacts(root))
    other: asyncio.Task[Entry] | None = None
    sizes = {}
    async for batch in session.listing("/in"):
        other = other or asyncio.create_task(session.stat("/in/f2"), context=contextvars.Context())
        for entry in batch:
            sizes[entry.name] = (await session.stat(f"/in/{entry.name}")).size
        assert not other.done(), "another task's command waits for the end"
    assert sizes["sub"] is not None
    assert sizes["f1"] == 2
    assert other is not None
    assert (await other).size == 2


async def test_a_command_does_not_wait_for_ever_for_the_end_of_a_listing(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "AHEAD", 2)
    monkeypatch.setattr(connection, "MAX_ALONE", 0.2)
    session = await opened(WithFacts(root))
    async for _ in session.listing("/in"):
        with pytest.raises(FaultError) as caught:
            await asyncio.create_task(session.stat("/in/f2"), context=contextvars.Context())
        assert caught.value.fault.kind is Kind.TIMEOUT
    assert (await session.stat("/in/f2")).size == 2


# ---- logins and data connections


@pytest.mark.parametrize("verb", ["USER", "PASS", "FEAT", "PWD"])
async def test_a_reply_too_many_ends_the_login(root: Path, verb: str) -> None:
    """A text of several lines with its own end in the middle: all further answers would be those to other commands."""
    codes = {"USER": 220, "PASS": 230, "FEAT": 211, "PWD": 257}

    class Counting(WithFacts):
        def answer(self, asked: str, argument: bytes, session: OddSession) -> str | None:
            if asked == verb:
                session.say(f"{codes[verb]} users are here")
            return None

    with Counting(root) as server:
        with pytest.raises(FaultError) as caught:
            await GridFTPSession.open("127.0.0.1", server.port)
        assert (caught.value.fault.kind, caught.value.fault.scope) == (Kind.ENDPOINT_ERROR, FaultScope.SESSION)
        assert "do not belong" in caught.value.fault.raw
        assert not any(asked in ("MLST", "MLSD", "LIST") for asked, _ in server.log)


@pytest.mark.parametrize("reply", ["229 ok", "229 ok (|||0|)", "229 ok (|||99999|)", "200 ok", "500 no", "425 no"])
async def test_pasv_is_tried_where_epsv_names_no_port(root: Path, opened: Opened, reply: str) -> None:
    class Odd(WithFacts):
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            return reply if verb == "EPSV" else None

    server = Odd(root)
    session = await opened(server)
    assert "f1" in await listed(session, "/in")
    assert "PASV" in {verb for verb, _ in server.log}


@pytest.mark.parametrize("kind", [OddFtp, WithFacts])
@pytest.mark.parametrize("announced", [False, True])
async def test_an_empty_folder_may_be_reported_without_a_data_connection(
    root: Path, opened: Opened, kind: type[OddFtp], announced: bool
) -> None:
    """Where data was announced and none came, the folder may have entries."""

    class Idle(kind):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb not in ("LIST", "MLSD") or not argument.endswith(b"/empty"):
                return None
            if announced:
                session.say("150 here")
            session._close_listener()
            session._listener = None
            return "226 Transfer complete"

    session = await opened(Idle(root))
    if announced:
        assert await kind_of(session, "/in/empty") in (Kind.CONNECTION_RESET, Kind.CONNECT_FAILED)
    else:
        assert await listed(session, "/in/empty") == {}
        assert "f1" in await listed(session, "/in")


class ListsCurrentFolder(WithFacts):
    """Lists the current folder, whatever path is named."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb in ("MLSD", "LIST"):
            session.say("150 here")
            with session.data() as data:
                data.sendall(self.listing(self.real(session.path(b"")), verb))
            return "226 done"
        return None


class SplitsAtBlanks(OddFtp):
    """Takes the words of LIST for several paths, and lists the first one."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        words = argument.split()
        if verb != "LIST" or len([word for word in words if not word.startswith(b"-")]) < 2:
            return None
        return session._list(next(word for word in words if not word.startswith(b"-")))


@pytest.mark.parametrize("kind", [ListsCurrentFolder, SplitsAtBlanks])
async def test_the_folder_that_is_named_is_listed_and_no_other(root: Path, opened: Opened, kind: type[OddFtp]) -> None:
    (root / "in" / "sub two").mkdir()
    (root / "in" / "sub two" / "h").write_text("h")
    session = await opened(kind(root))
    assert set(await listed(session, "/in/sub two")) == {"h"}
    assert set(await listed(session, "/in/sub")) == {"g"}
    assert set(await listed(session, "/in/empty")) == set()
