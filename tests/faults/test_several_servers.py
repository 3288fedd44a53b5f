"""Endpoints with several servers over one storage: the lanes of a task spread over them, and outlive one of them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from endpoints.gridftp.faults import FaultError, FaultScope, Side
from endpoints.gridftp.server import GridFtpServer
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.fences import open_fence
from tests.gridftp.toolkit import ToolkitServer, hand_over
from transferapi.tasks.records import TaskEndpoint, TaskSpec
from workers.engine.slice import SliceResult, run_slice
from workers.session_factory import RealSessions
from workers.sessions.pool import LONGEST_ABSENCE, Address, SessionPool
from workers.sessions.pooled_sessions import PooledSession
from workers.sessions.server_addresses import Place, ServersBySide

FILES = 1500
FEW = 300
LANES = 4


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Cluster:
    """Two source servers and two destination servers. The pool's clock stands still until a test moves it."""

    kind: str
    root: Path
    servers: dict[Address, GridFtpServer | ToolkitServer]
    places: dict[Side, list[Place]]

    def __post_init__(self) -> None:
        self.now = 0.0
        self.pool = SessionPool(lambda: self.now)
        self.stores: list[MemoryStore] = []

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if self.kind == "toolkit" else f"/{name}"

    def addresses(self, side: Side) -> list[Address]:
        return [Address(place.host, place.port) for place in self.places[side]]

    def sessions(self, spec: TaskSpec) -> RealSessions:
        return RealSessions(
            spec,
            ServersBySide(dict(self.places)),
            self.pool,
            open_fence(),
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
        )

    async def session(self, side: Side) -> PooledSession:
        """One session, given back at once."""
        sessions = self.sessions(
            TaskSpec("t", False, TaskEndpoint("1", "a"), TaskEndpoint("2", "b"), {}, max_sessions=3)
        )
        session = await sessions.session(side)
        await session.stat(self.path("from"))
        await sessions.give_back(session)
        return session

    def stop(self, address: Address) -> None:
        """Its sessions die with it."""
        self.servers[address].stop()

    def start_again(self, address: Address) -> None:
        new = (
            GridFtpServer(self.root, port=address.port)
            if self.kind == "own"
            else ToolkitServer(self.root, port=address.port)
        )
        new.start()
        self.servers[address] = new

    async def move(self, origin: str, to: str, meanwhile: Callable[[], None]) -> None:
        """A whole task, from folder to folder; `meanwhile` is called again and again while it runs."""
        clock = RealClock()
        store = MemoryStore(clock, [(self.path(origin), self.path(to), True)], deadline=timedelta(minutes=2))
        options: dict[str, object] = {"tuning": "fixed", "perf_cc": LANES, "perf_p": 2, "perf_pp": 10}
        source, destination = TaskEndpoint("1", "go#ep1"), TaskEndpoint("2", "go#ep2")
        async with asyncio.timeout(60):
            while store.status == "ACTIVE":
                spec = TaskSpec("t", False, source, destination, options, max_sessions=LANES + 2)
                slice_ = asyncio.create_task(
                    run_slice(
                        spec, store.lease(), self.sessions(spec), MemoryCredentials(clock), clock, slice_seconds=30,
                        stop=asyncio.Event(), jitter=lambda: 0.0,
                    )
                )  # fmt: skip
                while not slice_.done():
                    meanwhile()
                    await asyncio.sleep(0.002)
                if slice_.result() is SliceResult.RELEASED:
                    await asyncio.sleep(max(0.0, (store.next_run_at - clock.now()).total_seconds()))
        assert store.status == "SUCCEEDED"
        names = sorted(os.listdir(self.root / origin))
        assert sorted(os.listdir(self.root / to)) == names
        for name in names:
            assert (self.root / to / name).read_bytes() == (self.root / origin / name).read_bytes()


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    for folder, count in (("from", FILES), ("few", FEW)):
        (tmp_path / folder).mkdir()
        for index in range(count):
            (tmp_path / folder / f"file{index:04}").write_bytes(index.to_bytes(4) * 2000)
    hand_over(tmp_path, stop_at=Path(tempfile.gettempdir()))
    servers: dict[Address, GridFtpServer | ToolkitServer] = {}
    places: dict[Side, list[Place]] = {}
    for side in (Side.SOURCE, Side.DESTINATION):
        for _ in range(2):
            server = GridFtpServer(tmp_path) if request.param == "own" else ToolkitServer(tmp_path)
            server.start()
            servers[Address("127.0.0.1", server.port)] = server
            places.setdefault(side, []).append(Place("127.0.0.1", server.port))
    cluster = Cluster(request.param, tmp_path, servers, places)
    yield cluster
    cluster.pool.forget("")
    await asyncio.sleep(0.01)
    for server in servers.values():
        server.stop()


async def test_lanes_spread_evenly_and_move_to_the_server_that_is_left(cluster: Cluster) -> None:
    victim, other = cluster.addresses(Side.DESTINATION)
    most: dict[Address, int] = dict.fromkeys(cluster.servers, 0)
    killed = False

    def meanwhile() -> None:
        nonlocal killed
        for address in most:
            most[address] = max(most[address], cluster.pool.in_use(address))
        if not killed and (cluster.root / "to").exists() and len(os.listdir(cluster.root / "to")) > FILES // 10:
            killed = True
            cluster.stop(victim)

    await cluster.move("from", "to", meanwhile)
    assert killed
    # Lanes, and the session that looks around.
    assert all(count in (2, 3) for address, count in most.items() if address != other), most
    most.update(dict.fromkeys(most, 0))
    await cluster.move("few", "to2", meanwhile)
    assert most[other] >= LANES
    assert cluster.pool.absences.left_out(victim)

    # It is back, but its time is not up: nobody asks it. Then it is used as if nothing had been.
    cluster.start_again(victim)
    assert {(await cluster.session(Side.DESTINATION)).address for _ in range(4)} == {other}
    cluster.now += LONGEST_ABSENCE
    most.update(dict.fromkeys(most, 0))
    await cluster.move("few", "to3", meanwhile)
    assert most[victim] in (2, 3)
    assert not cluster.pool.absences.left_out(victim)


async def test_an_endpoint_is_unreachable_only_when_none_of_its_servers_is_left(cluster: Cluster) -> None:
    one, two = cluster.addresses(Side.SOURCE)
    cluster.stop(one)
    for _ in range(4):
        assert (await cluster.session(Side.SOURCE)).address == two
    cluster.stop(two)
    await asyncio.sleep(0.05)
    cluster.pool.forget("")
    with pytest.raises(FaultError) as caught:
        await cluster.session(Side.SOURCE)
    assert caught.value.fault.scope is FaultScope.ENDPOINT
    assert caught.value.fault.side is Side.SOURCE
    # Both are left out: one of them is asked all the same.
    cluster.start_again(two)
    cluster.start_again(one)
    await cluster.session(Side.SOURCE)
