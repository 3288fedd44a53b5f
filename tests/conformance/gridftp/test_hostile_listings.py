"""Servers that list too much, too long, or without an end: by a session, and over REST."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.test import Client

from bench.abuse.listings import FACTS, HostileServer, endless, whole
from endpoints import concurrency_limits, listing_limits, registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp import listing
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.listing import Allowance
from endpoints.gridftp.replies import MAX_LINE
from endpoints.gridftp.streams.tls_streams import ClientDataConnection
from endpoints.permissions import Permission
from endpoints.registry import ServerSpec
from identity import tokens
from identity.models import User
from tests.integration.cast import make_user
from tests.integration.rest import Api, assert_error
from transferapi.rest.http import long_answers
from webui import transfer
from webui.transfer import Pane

Listing = Callable[[], Iterator[bytes]]
LS = "/operation/endpoint/place/ls"
SIZE_LIMIT = "ExternalError.DirListingFailed.SizeLimit"
LINE = f"{FACTS} x"


@pytest.fixture
def lists() -> Iterator[Callable[[Listing], HostileServer]]:
    """Start a server with this listing."""
    servers: list[HostileServer] = []

    def start(what: Listing) -> HostileServer:
        servers.append(HostileServer(what))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def once(*lines: str) -> Listing:
    text = "".join(f" {line}\r\n" for line in lines)
    return lambda: iter([f"250-Contents\r\n{text}250 End.\r\n".encode()])


async def refused(server: HostileServer, allowance: Allowance | None = None) -> FaultError:
    session = await GridFTPSession.open("127.0.0.1", server.port)
    try:
        with pytest.raises(FaultError) as caught:
            async for _ in session.listing("/", allowance):
                pass
        return caught.value
    finally:
        await session.close()


@pytest.mark.parametrize("line", [LINE, "Type=cdir; .", "no facts", ""])
@pytest.mark.parametrize("allowance", [(50_000, 1 << 30), (10**9, 1 << 20)], ids=["lines", "octets"])
async def test_a_listing_without_end_is_ended_whatever_its_lines_are(
    lists: Callable[[Listing], HostileServer], line: str, allowance: tuple[int, int]
) -> None:
    if line == "no facts" or (line == "" and allowance[0] == 10**9):
        line = "Type=pdir; .."
    error = await refused(lists(endless(line)), Allowance(*allowance))
    assert error.fault.kind is Kind.LIMIT_EXCEEDED
    assert not error.fault.retryable


async def test_empty_replies_without_end_are_a_listing_without_end(
    lists: Callable[[Listing], HostileServer],
) -> None:
    def blocks() -> Iterator[bytes]:
        while True:
            yield b"150 soon\r\n" * 1000

    assert (await refused(lists(blocks), Allowance(lines=20_000))).fault.kind is Kind.LIMIT_EXCEEDED


@pytest.mark.parametrize("end", ["", "\nand more"])
async def test_a_name_longer_than_any_path_is_no_name(lists: Callable[[Listing], HostileServer], end: str) -> None:
    error = await refused(lists(once(f"{FACTS} {'x' * 5000}{end}")))
    assert error.fault.kind is Kind.INVALID_PATH_NAME


async def test_lines_without_facts_are_a_fault_however_many_they_are(
    lists: Callable[[Listing], HostileServer],
) -> None:
    error = await refused(lists(once(LINE, *["no facts at all"] * 60_000)))
    assert error.fault.kind is Kind.ENDPOINT_ERROR
    assert "no facts at all" in error.fault.raw


async def test_a_reply_larger_than_the_part_of_a_listing_ends_the_session(
    lists: Callable[[Listing], HostileServer],
) -> None:
    error = await refused(lists(once(*[LINE] * 60_000)))
    assert error.fault.kind is Kind.ENDPOINT_ERROR
    assert "reply without end" in error.fault.raw


async def test_a_line_without_end_on_a_data_connection_is_ended() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"x" * MAX_LINE)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connect = partial(ClientDataConnection.open, "127.0.0.1", port, None)
        answer = asyncio.get_running_loop().create_future()
        with pytest.raises(FaultError, match="too long"):
            async for _ in listing._read_lines(connect, answer, listing.LineSplitter(), 20.0):
                pass


async def test_what_nobody_reads_any_more_is_not_kept(lists: Callable[[Listing], HostileServer]) -> None:
    """A reader that stops after the first entries leaves the rest to arrive."""
    session = await GridFTPSession.open("127.0.0.1", lists(endless(LINE)).port)
    found = session.listing("/")
    assert await anext(found)
    await found.aclose()
    pending = session.connection.channel._expected[0].tag
    waiting = getattr(pending, "on_preliminary").__self__  # noqa: B009
    await asyncio.sleep(0.05)
    assert waiting._replies.qsize() * 64_000 <= 2 * listing.MAX_WAITING
    with pytest.raises(FaultError):
        await session.stat("/")


# ---- over REST


@pytest.fixture
def alice(db: None, settings: Any) -> User:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.0/8")
    return make_user("alice")


@pytest.fixture
def ls(alice: User, lists: Callable[[Listing], HostileServer]) -> Callable[[Listing], Api]:
    """An API with an endpoint `place` that has this listing."""

    def register(what: Listing) -> Api:
        registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", lists(what).port, "ftp")])
        return Api(alice)

    return register


def test_a_listing_without_end_is_refused_and_gives_back_what_it_held(
    ls: Callable[[Listing], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_limits, "MAX_LINES", 20_000)
    assert_error(ls(endless("Type=cdir; .")).get(LS, path="/"), 502, SIZE_LIMIT)
    assert not concurrency_limits._waiting
    assert not concurrency_limits._reserved


def test_an_incomplete_listing_is_refused_unless_the_client_takes_it_and_a_page_warns(
    ls: Callable[[Listing], Api], alice: User
) -> None:
    api = ls(once("Type=file;Size=1; a", "Type=file;Size=x; b", "Type=file;Size=1; c"))
    answer = api.get(LS, path="/")
    assert_error(answer, 502, "ExternalError.DirListingFailed")
    assert "Size=x; b" in answer.body["message"]
    body = api.get(LS, path="/", incomplete=1).body
    assert [row["name"] for row in body["DATA"]] == ["a", "c"]
    assert "Size=x; b" in body["incomplete"]

    headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
    stream = Client().get(f"/v0.10{LS.removesuffix('ls')}listing?path=/", headers=headers)
    first, *rows, last = (json.loads(line) for line in b"".join(stream).splitlines())
    assert "incomplete" not in first
    assert [row["name"] for row in rows] == ["a", "c"]
    assert (last["DATA_TYPE"], last["total"], last["incomplete"]) == ("listing_end", 2, body["incomplete"])

    pane = Pane("origin", path="/", endpoint=registry.resolve(alice, "place", Permission.BROWSE))
    transfer.fill_panes(alice, [pane])
    assert [entry.name for entry in pane.entries] == ["a", "c"]
    assert pane.incomplete == body["incomplete"]


def test_a_complete_listing_has_no_warning(ls: Callable[[Listing], Api]) -> None:
    body = ls(once("Type=file;Size=1; a")).get(LS, path="/", incomplete=1).body
    assert (body["incomplete"], body["total"]) == (None, 1)


def test_a_listing_of_more_memory_than_a_user_has_is_refused(
    ls: Callable[[Listing], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ls(whole(lambda number: f"{number:0200}", 3000))
    assert api.get(LS, path="/").body["total"] == 3000
    monkeypatch.setattr(concurrency_limits, "MEMORY", concurrency_limits.ConcurrencyLimit(1_000_000, 2_000_000))
    assert_error(api.get(LS, path="/"), 502, SIZE_LIMIT)
    assert not concurrency_limits._reserved


def test_a_listing_waits_its_turn_where_others_hold_the_memory(
    ls: Callable[[Listing], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ls(whole(lambda number: f"{number:0200}", 1000))
    monkeypatch.setattr(concurrency_limits, "MEMORY", concurrency_limits.ConcurrencyLimit(1_000_000, 1_200_000))
    with concurrency_limits.RequestSlot(uuid.uuid4(), concurrency_limits.OPERATIONS) as other:
        other.reserve(900_000)
        assert_error(api.get(LS, path="/"), 429, "ClientError.TooManyRequests")
    assert api.get(LS, path="/").body["total"] == 1000


@pytest.mark.parametrize("form", ["json", "xml"])
def test_a_long_listing_counts_until_its_answer_is_read(ls: Callable[[Listing], Api], alice: User, form: str) -> None:
    names = [f"{number:06}-{'é' * 60}" for number in range(5000)]
    ls(whole(names.__getitem__, len(names)))
    headers = {"Authorization": f"Bearer {tokens.issue(alice)}"}
    answer = Client().get(f"/v0.10{LS}?path=/&format={form}", headers=headers)
    assert answer.streaming
    assert concurrency_limits._waiting[alice.pk] == 1
    assert concurrency_limits._reserved[alice.pk] > 5000 * listing_limits.ENTRY
    text = b"".join(answer)
    for name in (names[0], names[-1]):
        assert (name if form == "xml" else name.replace("é", "\\u00e9")).encode() in text
    assert not concurrency_limits._waiting
    assert not concurrency_limits._reserved


def test_one_who_leaves_in_the_middle_of_an_answer_gives_the_seat_back(
    ls: Callable[[Listing], Api], alice: User
) -> None:
    ls(whole(lambda number: f"{number:0250}", 5000))
    answer = Client().get(f"/v0.10{LS}?path=/", headers={"Authorization": f"Bearer {tokens.issue(alice)}"})
    assert next(iter(answer))
    assert concurrency_limits._waiting[alice.pk] == 1
    answer.close()
    assert not concurrency_limits._waiting
    assert not concurrency_limits._reserved


def test_one_who_takes_a_long_answer_too_slowly_loses_it(
    ls: Callable[[Listing], Api], alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    ls(whole(lambda number: f"{number:0250}", 5000))
    monkeypatch.setattr(long_answers, "PAUSE", -1.0)
    monkeypatch.setattr(long_answers, "SLOWEST", 1 << 40)
    answer = Client().get(f"/v0.10{LS}?path=/", headers={"Authorization": f"Bearer {tokens.issue(alice)}"})
    with pytest.raises(ConnectionResetError, match="too slowly"):
        b"".join(answer)
    answer.close()
    assert not concurrency_limits._waiting


def test_what_takes_too_long_to_compare_is_refused_and_patterns_of_stars_do_not(
    ls: Callable[[Listing], Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [*("a" * 200 + f"{number:05}" for number in range(40_000)), "a" * 100 + "b"]
    api = ls(whole(names.__getitem__, len(names)))
    stars = "*a" * 100 + "*b"
    assert [row["name"] for row in api.get(LS, path="/", filter=f"name:~{stars},~{stars}c").body["DATA"]] == names[-1:]
    seeks = "*" + "a?" * 100 + "*b"
    answer = api.get(LS, path="/", filter=f"name:~{seeks}")
    assert_error(answer, 400, "ClientError.BadRequest")
    assert "takes too long" in answer.body["message"]


def test_a_long_listing_is_in_order_whatever_it_is_ordered_by(ls: Callable[[Listing], Api]) -> None:
    """Sorted in portions: as one sort by all terms would have it, ties as they came."""
    names = [f"{number * 7919 % 3500:04}" for number in range(3500)]
    lines = [f"Type=file;Size={int(name) % 7};UNIX.owner={'xy'[int(name) % 2]}; {name}" for name in names]
    api = ls(once(*lines))
    rows = api.get(LS, path="/", orderby="size DESC,user,name DESC,size").body["DATA"]
    expected = sorted(names, reverse=True)
    expected.sort(key=lambda name: "xy"[int(name) % 2])
    expected.sort(key=lambda name: int(name) % 7, reverse=True)
    assert [row["name"] for row in rows] == expected
    by_owner = [row["name"] for row in api.get(LS, path="/", orderby="user DESC").body["DATA"]]
    assert by_owner == [one for one in names if int(one) % 2] + [one for one in names if not int(one) % 2]
