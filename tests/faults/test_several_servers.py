"""Endpoints with several servers over one storage: the lanes of a task spread over them, and outlive one of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.endpoint.toolkit import ToolkitServer, hand_over
from endpoints.gridftp.faults import FaultError, Scope, Side
from endpoints.gridftp.server import Server
from workers.engine.fakes import MemoryStore, State
from workers.engine.ports import EndpointRef, TaskSpec
from workers.engine.run import Outcome, run_slice
from workers.pool import LONGEST_ABSENCE, Address, SessionPool
from workers.sessions import Places, RealSessions

FILES = 600
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
    servers: dict[Address, Server | ToolkitServer]
    places: dict[Side, list[tuple[str, int]]]

    def __post_init__(self) -> None:
        self.now = 0.0
        self.pool = SessionPool(lambda: self.now)
        self.stores: list[MemoryStore] = []

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if self.kind == "toolkit" else f"/{name}"

    def addresses(self, side: Side) -> list[Address]:
        return [Address(host, port) for host, port in self.places[side]]

    def sessions(self, spec: TaskSpec) -> RealSessions:
        return RealSessions(
            spec, Places(dict(self.places)), self.pool, resolve=lambda host, _: [host], accept_address=lambda _: True
        )

    def stop(self, address: Address) -> None:
        """Its sessions die with it."""
        self.servers[address].stop()

    def start_again(self, address: Address) -> None:
        old = self.servers[address]
        new = (
            Server(self.root, port=address.port) if self.kind == "own" else ToolkitServer(self.root, port=address.port)
        )
        new.start()
        self.servers[address] = new
        del old

    async def move(self, to: str, *, meanwhile: Callable[[MemoryStore], None] = lambda _: None) -> MemoryStore:
        """A task from "from" to this folder; `meanwhile` is called again and again while it runs."""
        clock = RealClock()
        store = MemoryStore(clock, [(self.path("from"), self.path(to), True)], deadline=timedelta(minutes=2))
        options: dict[str, object] = {"tuning": "fixed", "perf_cc": LANES, "perf_p": 2, "perf_pp": 10}
        source, destination = EndpointRef("1", "go#ep1"), EndpointRef("2", "go#ep2")
        async with asyncio.timeout(60):
            while store.status == "ACTIVE":
                spec = TaskSpec("t", False, source, destination, options, max_sessions=LANES + 2)
                slice_ = asyncio.create_task(
                    run_slice(
                        spec, store.lease(), self.sessions(spec), clock, slice_seconds=30, stop=asyncio.Event(),
                        jitter=lambda: 0.0,
                    )
                )  # fmt: skip
                while not slice_.done():
                    meanwhile(store)
                    await asyncio.sleep(0.002)
                if slice_.result() is Outcome.RELEASED:
                    await asyncio.sleep(max(0.0, (store.next_run_at - clock.now()).total_seconds()))
        return store

    def check(self, to: str) -> None:
        names = sorted(os.listdir(self.root / "from"))
        assert sorted(os.listdir(self.root / to)) == names
        for name in names:
            assert (self.root / to / name).read_bytes() == (self.root / "from" / name).read_bytes()


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "from").mkdir()
    for index in range(FILES):
        (tmp_path / "from" / f"file{index:04}").write_bytes(index.to_bytes(4) * 5000)
    hand_over(tmp_path, stop_at=tmp_path.parent)
    servers: dict[Address, Server | ToolkitServer] = {}
    places: dict[Side, list[tuple[str, int]]] = {}
    for side in (Side.SOURCE, Side.DESTINATION):
        for _ in range(2):
            server = Server(tmp_path) if request.param == "own" else ToolkitServer(tmp_path)
            server.start()
            servers[Address("127.0.0.1", server.port)] = server
            places.setdefault(side, []).append(("127.0.0.1", server.port))
    cluster = Cluster(request.param, tmp_path, servers, places)
    yield cluster
    cluster.pool.close()
    for server in servers.values():
        server.stop()


async def test_lanes_spread_evenly_and_move_to_the_server_that_is_left(cluster: Cluster) -> None:
    victim, other = cluster.addresses(Side.DESTINATION)
    most: dict[Address, int] = dict.fromkeys(cluster.servers, 0)
    killed = False
    afterwards: set[int] = set()

    def meanwhile(store: MemoryStore) -> None:
        nonlocal killed
        for address in most:
            most[address] = max(most[address], cluster.pool.in_use(address))
        if not killed and store.count(State.DONE) > FILES // 10:
            killed = True
            cluster.stop(victim)
        elif killed:
            afterwards.add(cluster.pool.in_use(other))

    store = await cluster.move("to", meanwhile=meanwhile)
    assert store.status == "SUCCEEDED"
    assert killed
    cluster.check("to")
    # Lanes, and the session that looks around.
    assert all(count in (2, 3) for address, count in most.items() if address != other), most
    assert max(afterwards) >= LANES
    assert cluster.pool.absences.left_out(victim)

    # It is back, but its time is not up: nobody asks it. Then it is used as if nothing had been.
    cluster.start_again(victim)
    most = dict.fromkeys(cluster.servers, 0)
    await cluster.move("to2", meanwhile=meanwhile)
    assert most[victim] == 0
    cluster.now += LONGEST_ABSENCE
    await cluster.move("to3", meanwhile=meanwhile)
    assert most[victim] >= 2
    assert not cluster.pool.absences.left_out(victim)
    cluster.check("to2")
    cluster.check("to3")
    await asyncio.sleep(0.01)


async def test_an_endpoint_is_unreachable_only_when_none_of_its_servers_is_left(cluster: Cluster) -> None:
    one, two = cluster.addresses(Side.SOURCE)
    spec = TaskSpec("t", False, EndpointRef("1", "a"), EndpointRef("2", "b"), {}, max_sessions=3)
    sessions = cluster.sessions(spec)
    cluster.stop(one)
    for _ in range(4):
        session = await sessions.session(Side.SOURCE)
        assert session.address == two
        await session.stat(cluster.path("from"))
        await sessions.give_back(session)
    cluster.stop(two)
    await asyncio.sleep(0.05)
    cluster.pool.close()
    with pytest.raises(FaultError) as caught:
        await sessions.session(Side.SOURCE)
    assert caught.value.fault.scope is Scope.ENDPOINT
    assert caught.value.fault.side is Side.SOURCE
    # All are left out: one that is back is found all the same, as soon as it is its turn.
    cluster.start_again(two)
    cluster.start_again(one)
    with suppress(FaultError):
        await sessions.session(Side.SOURCE)
    session = await sessions.session(Side.SOURCE)
    await session.stat(cluster.path("from"))
    await sessions.give_back(session)
