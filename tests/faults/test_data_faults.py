"""Data connections cut in the middle of a large file: it goes on from its range markers, and arrives whole."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Kind, Side
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party import lane as lane_module
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import HEAD, FileProgress, FileRefused, FileSettled, PairEvent, Transfer
from tests.faults.scenes import Arena, arena
from tests.gridftp.data_proxy import Cut, DataProxy
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan, Step, Watch

pytestmark = pytest.mark.toolkit

SIZE = 28_000_000
#: Octets a second: slow enough for a marker (one a second) before the cut, and for no more than that.
RATE = 10e6
CUT_AFTER = 20_000_000
#: Headers of blocks, and what markers round.
SLACK = 600_000
PAIRS = [("toolkit", "toolkit"), ("own", "own"), ("toolkit", "own"), ("own", "toolkit")]


async def open_lane(*proxies: MisbehavingProxy, stall_timeout: float) -> ThirdPartyLane:
    sessions = [await GridFTPSession.open("127.0.0.1", proxy.port) for proxy in proxies]
    return ThirdPartyLane(*sessions, parallelism=2, accept_address=lambda _: True, stall_timeout=stall_timeout)


async def outcome(lane: ThirdPartyLane) -> tuple[PairEvent, RangeSet]:
    """Return the event that ends the file, and the ranges of the last marker before it."""
    told = RangeSet()
    while True:
        async with asyncio.timeout(60):
            events = await lane.events()
        for event in events:
            if not isinstance(event, FileProgress):
                return event, told
            told = event.ranges


async def end(lane: ThirdPartyLane) -> None:
    for session in lane.release() or ():
        await session.close()
    await asyncio.sleep(0)


async def move(place: Arena, cut: Cut) -> None:
    """Cut, then go on until it is there."""
    content = random.Random(1).randbytes(SIZE)
    source, target = place.root / "source", place.root / "there" / "copy"
    source.write_bytes(content)
    target.parent.mkdir()
    target.parent.chmod(0o777)
    transfer = Transfer("large", place.source.path(source), place.destination.path(target), SIZE)
    async with (
        DataProxy(rate=RATE, cut=cut, after=CUT_AFTER) as data,
        MisbehavingProxy(place.source.port, data=data) as one,
        MisbehavingProxy(place.destination.port) as two,
    ):
        lane = await open_lane(one, two, stall_timeout=4.0)
        lane.feed(transfer)
        refused, told = await outcome(lane)
        assert isinstance(refused, FileRefused), refused
        assert refused.trusted
        assert refused.trusted.total >= told.total > 0, "what markers told is not forgotten"
        before = data.passed
        await end(lane)
        lane = await open_lane(one, two, stall_timeout=50.0)
        lane.feed(transfer._replace(ranges=refused.trusted))
        settled, _ = await outcome(lane)
        await end(lane)
    assert isinstance(settled, FileSettled), settled
    assert data.cuts == 1
    assert data.passed - before <= SIZE - refused.trusted.total + SLACK, "what was on the disk was not sent again"
    assert before - refused.trusted.total - HEAD <= CUT_AFTER / 1.5, "most of what was sent before is used"
    assert target.read_bytes() == content


@pytest.mark.parametrize("cut", list(Cut), ids=lambda cut: cut.name.lower())
async def test_a_file_goes_on_from_its_markers(root: Path, cut: Cut) -> None:
    """All four pairs of kinds at once: most of it is waiting."""
    async with asyncio.TaskGroup() as group:
        for kinds in PAIRS:
            group.create_task(between(root / "-".join(kinds), kinds, cut))


async def between(folder: Path, kinds: tuple[str, str], cut: Cut) -> None:
    folder.mkdir()  # noqa: ASYNC240 (in memory)
    with arena(folder, *kinds) as place:
        await place.ready()
        await move(place, cut)


@pytest.mark.parametrize(("source", "destination"), PAIRS)
async def test_a_firewall_that_refuses_the_data_port_to_all_holds_no_lane(
    root: Path, source: str, destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver waits for a connection, and this service cannot make one to free it either.

    Its 150, where it sends one before it accepts, arrives only after the source's refusal: no sign that it is free.
    """
    monkeypatch.setattr(lane_module, "FLUSH_TIMEOUT", 0.5)
    with arena(root, source, destination) as place, socket.socket() as closed:
        await place.ready()
        closed.bind(("127.0.0.1", 0))  # a port without a listener refuses, as such a firewall does
        (root / "source").write_bytes(b"x" * 1000)
        late = Plan(Step(Watch.REPLIES, "STOR", 0, 150), Deed.DELAY)
        refusing = MisbehavingProxy(place.destination.port, late, passive_port=closed.getsockname()[1])
        async with MisbehavingProxy(place.source.port) as sending, refusing as receiving:
            sessions = [await GridFTPSession.open("127.0.0.1", proxy.port) for proxy in (sending, receiving)]
            lane = ThirdPartyLane(*sessions, parallelism=2, accept_address=lambda _: True)
            lane.feed(Transfer("one", place.source.path(root / "source"), place.destination.path(root / "to"), 1000))
            event, _ = await outcome(lane)
            assert not lane.alive
            await end(lane)
    assert isinstance(event, FileRefused)
    assert (event.fault.kind, event.fault.side) == (Kind.CONNECT_FAILED, Side.SOURCE)
