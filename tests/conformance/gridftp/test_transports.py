"""Lanes over UDT and with TCP buffers of a given size, between toolkit servers that allow it and others that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import workers.engine.tuning.transport
import workers.ways.third_party
from deploy.endpoint.authority import CertificateFiles
from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Side
from endpoints.gridftp.login import Login
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileSettled
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.fences import open_fence
from tests.gridftp.authority import Authority
from tests.gridftp.grid import login_of
from tests.gridftp.toolkit import ToolkitServer
from transferapi.tasks.records import FileRow, TaskEndpoint, TaskSpec
from workers.engine.lanes.lane_pool import NO_UDT
from workers.engine.ports import TCP, UDT, Lane, Transport
from workers.engine.slice import SliceResult, run_slice
from workers.engine.tuning.transport import KEY
from workers.session_factory import RealSessions
from workers.sessions.pool import REFUSED_SECONDS, SessionKey, SessionPool
from workers.sessions.server_addresses import Place, ServersBySide

WHITELIST = ("-dc-whitelist", "udt,tcp,gsi")
FILES = 8
SIZE = 200_000
SPEC = TaskSpec("t", False, TaskEndpoint("1", "go#ep1"), TaskEndpoint("2", "go#ep2"), {}, max_sessions=5)


class World:
    """Files to move, and a pool whose clock the test moves."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        self.pool = SessionPool(lambda: self.now)
        for index in range(FILES):
            (root / f"file{index}").write_bytes(index.to_bytes(4, "big") * (SIZE // 4))

    def sessions(self, source: int, destination: int) -> RealSessions:
        servers = {
            Side.SOURCE: [Place("127.0.0.1", source)],
            Side.DESTINATION: [Place("127.0.0.1", destination)],
        }
        return RealSessions(
            SPEC,
            ServersBySide(dict(servers)),
            self.pool,
            open_fence(),
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
        )

    async def move(self, lane: Lane, path: Callable[[str], str]) -> list[FileEvent]:
        """Move all files, and return the event of each."""
        lane.use_streams(2)
        for index in range(FILES):
            lane.feed(FileRow(index, 1, path(f"file{index}"), path(f"copy{index}"), SIZE))
        events: list[FileEvent] = []
        async with asyncio.timeout(30):
            while len(events) < FILES:
                events += [event for event in await lane.events() if not isinstance(event, FileProgress)]
        for event in events:
            if isinstance(event, FileSettled):
                assert isinstance(event.tag, FileRow)
                index = event.tag.id
                assert (self.root / f"copy{index}").read_bytes() == (self.root / f"file{index}").read_bytes()
        return events

    async def move_all(self, sessions: RealSessions, wanted: Transport, path: Callable[[str], str]) -> Transport:
        """All by one lane; what it moved by."""
        lane = await sessions.lane(transport=wanted)
        events = await self.move(lane, path)
        assert [type(event) for event in events] == [FileSettled] * FILES
        await lane.close()
        return sessions.transport

    def full(self, name: str) -> str:
        return f"{self.root}/{name}"


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def run_task(world: World, source: int, destination: int, **facts: object) -> MemoryStore:
    """A whole task of all the files, as long as it takes."""
    clock = RealClock()
    items = [(world.full(f"file{index}"), world.full(f"copy{index}"), False) for index in range(FILES)]
    store = MemoryStore(clock, items, deadline=timedelta(minutes=1))
    spec = replace(SPEC, **facts)  # type: ignore[arg-type]
    async with asyncio.timeout(40):
        while store.status == "ACTIVE":
            slice_ = run_slice(
                spec, store.lease(), world.sessions(source, destination), MemoryCredentials(clock), clock,
                slice_seconds=30, stop=asyncio.Event(), jitter=lambda: 0.0,
            )  # fmt: skip
            if await slice_ is SliceResult.RELEASED:
                await asyncio.sleep(max(0.0, (store.next_run_at - clock.now()).total_seconds()))
    for index in range(FILES):
        assert (world.root / f"copy{index}").read_bytes() == (world.root / f"file{index}").read_bytes()
    return store


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    world = World(folder)
    yield world
    world.pool.forget("")
    await asyncio.sleep(0.01)


def udp_sockets() -> set[str]:
    """The local addresses of this machine's UDP sockets."""
    return {line.split()[1] for line in Path("/proc/net/udp").read_text().splitlines()[1:]}


@pytest.mark.toolkit
async def test_udt_is_used_between_servers_that_allow_it(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    one, two = (toolkit_server_factory(world.root, *WHITELIST, "-threads", "1") for _ in range(2))
    sessions = world.sessions(one.port, two.port)
    before = udp_sockets()
    lane = await sessions.lane(transport=UDT)
    events = await world.move(lane, world.full)
    assert [type(event) for event in events] == [FileSettled] * FILES
    assert len(udp_sockets() - before) >= 2, "both servers have opened some"
    await lane.close()
    assert sessions.transport == UDT
    # Its sessions are not used for what is to go by TCP.
    assert await world.move_all(sessions, TCP, world.full) == TCP


@pytest.mark.toolkit
@pytest.mark.parametrize("way", ["udt-plain", "plain-udt", "plain-plain"])
async def test_a_server_that_does_not_allow_udt_is_used_by_tcp_and_not_asked_again(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer], way: str
) -> None:
    ports = [
        toolkit_server_factory(world.root, *((*WHITELIST, "-threads", "1") if kind == "udt" else ())).port
        for kind in way.split("-")
    ]
    sessions = world.sessions(*ports)
    assert await world.move_all(sessions, UDT, world.full) == TCP
    source, destination = (address for tiers in sessions._addresses._tiers.values() for address in tiers[0])
    assert world.pool.refuses(UDT, source, destination)
    assert await world.move_all(sessions, UDT, world.full) == TCP
    world.now += REFUSED_SECONDS
    assert not world.pool.refuses(UDT, source, destination)


@pytest.mark.toolkit
async def test_a_server_that_hangs_with_udt_is_left_in_time_and_used_by_tcp(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It allows UDT, but runs without threads."""
    monkeypatch.setattr(workers.ways.third_party, "UDT_STALL_TIMEOUT", 2.0)
    good = toolkit_server_factory(world.root, *WHITELIST, "-threads", "1")
    bad = toolkit_server_factory(world.root, *WHITELIST)
    sessions = world.sessions(good.port, bad.port)
    lane = await sessions.lane(transport=UDT)
    events = await world.move(lane, world.full)
    assert not [event for event in events if isinstance(event, FileSettled)]
    assert not lane.alive
    await lane.close()
    assert await world.move_all(sessions, UDT, world.full) == TCP


@pytest.mark.toolkit
async def test_a_task_that_asked_for_udt_arrives_where_the_server_hangs_with_it(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.ways.third_party, "UDT_STALL_TIMEOUT", 2.0)
    good = toolkit_server_factory(world.root, *WHITELIST, "-threads", "1")
    bad = toolkit_server_factory(world.root, *WHITELIST)
    store = await run_task(world, good.port, bad.port, options={"perf_udt": True})
    assert store.status == "SUCCEEDED"
    assert store.codes().count(NO_UDT) == 1


@pytest.mark.toolkit
async def test_the_measurements_of_a_task_decide_what_the_next_one_uses(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MIN_OCTETS", "MIN_AVERAGE"):
        monkeypatch.setattr(workers.engine.tuning.transport, name, 1)
    ports = [toolkit_server_factory(world.root, *WHITELIST, "-threads", "1").port for _ in range(2)]
    knowledge: dict[str, Any] = {}
    for options, names in (({}, {"tcp"}), ({"perf_udt": True}, {"tcp", "udt"})):
        store = await run_task(world, *ports, options=options, knowledge=knowledge)
        assert store.status == "SUCCEEDED"
        knowledge = dict(store.knowledge or {})
        assert set(knowledge[KEY]) == names
    # On loopback it is slower. Had it been faster, it would be used.
    knowledge[KEY]["udt"][0] = 10 * knowledge[KEY]["tcp"][0]
    store = await run_task(world, *ports, knowledge=knowledge)
    after: dict[str, Any] = dict(store.knowledge or {})
    assert after[KEY]["udt"] != knowledge[KEY]["udt"]
    assert after[KEY]["tcp"] == knowledge[KEY]["tcp"]


@pytest.mark.toolkit
async def test_buffers_of_tcp_are_set_on_both_sides(
    world: World, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    sessions = world.sessions(*(toolkit_server_factory(world.root).port for _ in range(2)))
    wanted = Transport(buffer=1 << 20)
    assert await world.move_all(sessions, wanted, world.full) == wanted


async def test_our_server_knows_buffers_and_no_udt(world: World) -> None:
    with GridFtpServer(world.root) as one, GridFtpServer(world.root) as two:
        sessions = world.sessions(one.port, two.port)
        wanted = Transport(buffer=1 << 20)
        assert await world.move_all(sessions, wanted, lambda name: f"/{name}") == wanted
        assert await world.move_all(sessions, UDT, lambda name: f"/{name}") == TCP
        world.pool.forget("")
        await asyncio.sleep(0.01)


@pytest.mark.toolkit
@pytest.mark.parametrize("encrypt", [False, True])
async def test_udt_between_servers_with_gsi_keeps_the_protection(
    world: World,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    encrypt: bool,
) -> None:
    """The server says 250 to "udt" alone, too, and sends in clear: see docs/decisions/certificates-and-gsi.md."""
    one, two = (gsi_server_factory(world.root, *WHITELIST, "-threads", "1") for _ in range(2))
    said: list[bytes] = []
    send = ControlChannel.send_line

    def listen(self: ControlChannel, verb: str, line: bytes, *, tag: object = None) -> None:
        said.append(line)
        send(self, verb, line, tag=tag)

    monkeypatch.setattr(ControlChannel, "send_line", listen)

    async def login() -> Login:
        return login_of(identity_of("alice"), authority)

    sessions = RealSessions(
        replace(SPEC, options={"encrypt_data": encrypt}),
        ServersBySide(
            {side: [Place("127.0.0.1", end.port)] for side, end in ((Side.SOURCE, one), (Side.DESTINATION, two))}
        ),
        world.pool,
        open_fence(),
        session_key=lambda side, address, _: SessionKey(address, f"alice {side}", login),
        resolve=lambda host, _: [host],
        accept_address=lambda _: True,
    )

    assert await world.move_all(sessions, UDT, world.full) == UDT
    assert said.count(b"SITE SETNETSTACK udt,gsi\r\n") == 2
    assert b"SITE SETNETSTACK udt\r\n" not in said
    assert said.count(b"PROT P\r\n") == 2 * encrypt
