"""Verification and modification times: what arrived is compared before it is settled, whatever happens."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, make_fault
from tests.engine_fakes import Fuse, MemorySessions, State, run
from tests.unit.engine.world import World, each_in_virtual_time
from transferapi.tasks.records import Checksum, ItemRow
from workers.engine.settle import post_transfer
from workers.engine.settle.timestamps import WARNING
from workers.engine.slice import SliceResult
from workers.engine.tuning.plan import MB

pytestmark = pytest.mark.virtual_time

DOWN = replace(make_fault(Kind.CONNECT_FAILED), scope=FaultScope.ENDPOINT)
LOST = make_fault(Kind.CONNECTION_BROKEN)
YESTERDAY = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


class Sessions(MemorySessions):
    """Servers that take their time for a checksum, and on whose disks octets rot just before one is made."""

    world: CheckedWorld

    async def step(self, step: str, side: Side, path: str) -> None:
        if step == "checksum":
            await asyncio.sleep(self.world.checksum_seconds.get(path, 0))
            if side is Side.DESTINATION and self.world.rot.get(path):
                self.world.rot[path] -= 1
                self.trees[side].get(path).content = b"rotten"
        await super().step(step, side, path)


@dataclass
class CheckedWorld(World):
    options: dict[str, object] = field(default_factory=lambda: {"verify_checksum": True})
    #: By path; and how often a destination's content is spoiled.
    checksum_seconds: dict[str, float] = field(default_factory=dict)
    rot: dict[str, int] = field(default_factory=dict)

    servers = Sessions

    def new_sessions(self, fuse: Fuse | None) -> MemorySessions:
        sessions = super().new_sessions(fuse)
        assert isinstance(sessions, Sessions)
        sessions.world = self
        return sessions

    def fill(self, count: int) -> None:
        for n in range(count):
            self.source.write(f"/src/f{n:03}", b"%d" % n * n).modified = YESTERDAY + timedelta(days=n)

    def slow(self, seconds: float) -> None:
        """All files that are there by now take so long to be read, on both sides."""
        for path in self.source.files("/src"):
            self.checksum_seconds[f"/src{path}"] = self.checksum_seconds[f"/dst{path}"] = seconds

    def moved_by(self, source_path: str) -> list[int]:
        """Octets that each settlement of this file says were moved in its last sending."""
        return [
            one.bytes for batch in self.store.writes for one in batch.settled if one.file.source_path == source_path
        ]

    @property
    def total(self) -> int:
        return sum(map(len, self.source.files("/src").values()))


def folder(**options: object) -> CheckedWorld:
    return CheckedWorld([("/src/", "/dst/", None)], options={"verify_checksum": True, **options})


def arrived(world: World) -> bool:
    there = world.destination.files("/dst")
    return {path: one for path, one in there.items() if "/.waybill-" not in path} == world.source.files("/src")


# ---- verify_checksum


async def test_every_file_is_compared_once_and_its_checksum_kept() -> None:
    world = folder()
    world.fill(150)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.totals.bytes_checksummed == world.total
    assert world.store.totals.faults == 0
    for row in world.store.rows.values():
        content = world.source.get(row.file.source_path).content
        assert row.file.checksum == Checksum("MD5", hashlib.md5(content).hexdigest())


async def test_a_task_that_does_not_ask_makes_no_checksum() -> None:
    world = folder(verify_checksum=False)
    world.fill(3)
    world.script.add("checksum", "", LOST, -1)
    assert await world.run() == "SUCCEEDED"
    assert world.script.met == 0
    assert world.store.totals.bytes_checksummed == 0


async def test_the_algorithm_is_the_best_that_both_sides_know() -> None:
    world = folder()
    world.fill(2)
    world.sessions.algorithms = {Side.SOURCE: ("MD5", "SHA256", "SHA1"), Side.DESTINATION: ("SHA1", "SHA256")}
    assert await world.run() == "SUCCEEDED"
    assert {row.file.checksum and row.file.checksum.algorithm for row in world.store.rows.values()} == {"SHA256"}


async def test_a_file_that_differs_is_a_fault_and_is_sent_again_afresh() -> None:
    world = folder()
    world.fill(20)
    world.rot = {"/dst/f007": 1}
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    (fault,) = [event for event in world.store.events if event.is_error]
    assert (fault.code, world.store.totals.faults) == (Kind.VERIFY_CHECKSUM, 1)
    assert world.sessions.moved.count("/src/f007") == 2
    assert world.moved_by("/src/f007") == [7]
    assert world.store.totals.bytes_checksummed == world.total + 7
    assert world.seconds() > 0.5, "it waits before it is sent again"


async def test_a_file_that_always_differs_holds_up_no_other_and_is_tried_until_the_deadline() -> None:
    world = replace_deadline(folder(), timedelta(minutes=10))
    world.fill(20)
    world.rot = {"/dst/f007": 1000}
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "EXPIRED"
    assert world.store.count(State.DONE) == 19
    assert 5 < world.store.codes().count(Kind.VERIFY_CHECKSUM) < 30, "with backoff"


def replace_deadline(world: CheckedWorld, deadline: timedelta) -> CheckedWorld:
    world.store.deadline = world.clock.now() + deadline
    return world


async def test_a_source_that_was_changed_after_the_transfer_is_sent_again() -> None:
    world = folder()
    world.fill(3)
    world.checksum_seconds = {"/src/f002": 0.5}

    async def change() -> None:
        await world.until(lambda: "/src/f002" in world.sessions.moved)
        world.source.get("/src/f002").content = b"zz"

    changing = asyncio.create_task(change())
    assert await world.run() == "SUCCEEDED"
    await changing
    assert world.store.codes().count(Kind.VERIFY_CHECKSUM) == 1
    assert world.destination.get("/dst/f002").content == b"zz"


async def test_what_no_algorithm_can_verify_is_not_moved_at_all() -> None:
    world = folder()
    world.fill(50)
    world.sessions.algorithms[Side.DESTINATION] = ()
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == Kind.UNSUPPORTED
    assert "checksum" in world.store.fatal[1]
    assert world.store.count(State.DONE) == 0
    assert world.seconds() < 2


# ---- connections, slices and workers that end


async def test_a_lost_connection_costs_no_file_its_transfer() -> None:
    world = folder()
    world.fill(40)
    world.slow(0.05)
    world.script.add("checksum", "/dst/f030", LOST)
    assert await world.run() == "SUCCEEDED"
    (faulted,) = [one for batch in world.store.writes for one in batch.faulted]
    assert (faulted.file.source_path, faulted.ranges) == ("/src/f030", "0-60")
    assert world.moved_by("/src/f030") == [0], "it was continued where nothing was left to send"
    others = [path for path in world.sessions.moved if path != "/src/f030"]
    assert len(others) == len(set(others)) == 39


@pytest.mark.parametrize("path", ["/src/f005", "/dst/f005"])
@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.TIMEOUT, Kind.ENDPOINT_ERROR, Kind.FILE_NOT_FOUND])
async def test_a_checksum_that_could_not_be_made_is_made_later(kind: Kind, path: str) -> None:
    world = folder()
    world.fill(8)
    world.script.add("checksum", path, make_fault(kind), 2)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.codes().count(kind) == 2
    vanished = kind is Kind.FILE_NOT_FOUND and path.startswith("/dst")
    assert world.moved_by("/src/f005") == [5 if vanished else 0]


async def test_endpoints_that_are_down_for_long_do_not_keep_the_place() -> None:
    world = folder()
    world.fill(10)
    world.slow(0.2)

    async def outage() -> None:
        await world.until(lambda: len(world.sessions.moved) == 10)
        world.script.add("checksum", "", LOST, -1)
        world.script.add("open", "", DOWN, -1)
        await asyncio.sleep(60)
        world.script.rules.clear()

    breaking = asyncio.create_task(outage())
    assert await world.run() == "SUCCEEDED"
    await breaking
    assert arrived(world)
    assert SliceResult.RELEASED in world.outcomes
    assert sum(map(sum, map(world.moved_by, world.sessions.moved[:10]))) < world.total


async def test_a_worker_that_is_asked_to_end_leaves_it_to_the_next_one_to_compare() -> None:
    world = folder()
    world.fill(10)
    world.source.write("/src/large", b"0123456789", scale=10 * MB)
    world.slow(1000)
    asyncio.get_running_loop().call_later(5, world.stop.set)
    assert await world.slice() is SliceResult.RELEASED
    assert world.seconds() < 7
    world.stop.clear()
    assert {row.file.ranges for row in world.store.rows.values() if row.file.size > 5} == {
        f"0-{size}" for size in (*range(6, 10), 100 * MB)
    }
    world.slow(0)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert all(world.moved_by(path) == [0] for path in world.sessions.moved if path != "/src/f000")


async def test_a_checksum_that_takes_longer_than_a_slice_comes_to_its_end() -> None:
    world = folder()
    world.slice_seconds, world.may_time_out = 5, True
    world.fill(3)
    for n in range(4):
        world.source.write(f"/src/large{n}", b"0123456789", scale=10 * MB)
    world.slow(100)
    world.checksum_seconds = {path: 0.1 if "/f0" in path else 100 for path in world.checksum_seconds}
    assert await world.run() == "SUCCEEDED"
    assert world.outcomes.count(SliceResult.RELEASED) == 2
    assert world.store.totals.bytes_checksummed == 3 + 400 * MB, "each once"


async def test_a_large_file_survives_its_worker_between_arrival_and_checksum() -> None:
    world = folder()
    world.chunk = 30 * MB
    world.sessions = world.new_sessions(None)
    world.source.write("/src/large", b"0123456789", scale=10 * MB)
    world.slow(20)
    fuse = Fuse(10**6)
    world.sessions = world.new_sessions(fuse)
    worker = asyncio.create_task(world.slice(fuse))
    await asyncio.sleep(10)
    assert world.sessions.moved == ["/src/large"]
    await die(world, worker)
    world.slow(0)
    assert await world.run() == "SUCCEEDED"
    assert world.moved_by("/src/large") == [0]
    assert arrived(world)


async def test_one_that_arrived_under_a_temporary_name_is_looked_for_under_its_own_after_that() -> None:
    world = folder()
    world.source.write("/src/large", b"0123456789", scale=10 * MB)
    step = 1
    while not world.store.rows:
        assert await world.killed_slice(step)
        step += 1
    world.slow(20)
    fuse = Fuse(10**6)
    world.sessions = world.new_sessions(fuse)
    worker = asyncio.create_task(world.slice(fuse))
    await asyncio.sleep(10)
    assert world.sessions.moved == ["/src/large"]
    assert world.store.file("/src/large").file.temporary_path is None
    await die(world, worker)
    world.slow(0)
    assert await world.run() == "SUCCEEDED"
    assert world.moved_by("/src/large") == [0]
    assert arrived(world)


async def die(world: CheckedWorld, worker: asyncio.Task[SliceResult]) -> None:
    """Kill the worker now, as `World.killed_slice` does."""
    world.store.lease()
    world.sessions.kill()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    world.store.held = False
    world.suspect_up_to = max(world.store.rows, default=0)
    world.sessions = world.new_sessions(None)


async def killed_at(step: int, latency: float) -> bool:
    """A task that verifies small files and a large one and keeps their times, whose worker dies at this step."""
    world = folder(preserve_timestamp=True)
    world.latency = latency
    world.chunk = 40 * MB
    world.fill(6)
    world.source.write("/src/large", b"0123456789", scale=10 * MB).modified = YESTERDAY
    world.script.add("checksum", "/src/f002", LOST)
    world.script.add("checksum", "/dst/f003", make_fault(Kind.PERMISSION_DENIED))
    world.script.add("utime", "/dst/f004", LOST)
    killed = await world.killed_slice(step)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert all(row.file.checksum for row in world.store.rows.values())
    for path in world.source.files("/src"):
        assert world.destination.get(f"/dst{path}").modified == world.source.get(f"/src{path}").modified
    return killed


@pytest.mark.parametrize("latency", [0.001, 0.4])
def test_a_worker_may_be_killed_at_any_step(latency: float) -> None:
    step = 1
    while run(killed_at(step, latency)):
        step += 1
    assert step > 60


RULES = st.tuples(
    st.sampled_from(["checksum", "utime", "open", "lane", "stat", "retr", "stor"]),
    st.sampled_from(["", "/src", "/dst", "/dst/f00", "/src/f001"]),
    st.sampled_from([LOST, DOWN, make_fault(Kind.TIMEOUT), make_fault(Kind.PERMISSION_DENIED)]),
    st.integers(1, 6),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rules=st.lists(RULES, max_size=6),
    deaths=st.lists(st.integers(1, 150), max_size=3),
    sessions=st.sampled_from([3, 9]),
)
@each_in_virtual_time
async def test_every_file_is_settled_as_it_is_whatever_fails(
    rules: list[tuple[str, str, Fault, int]], deaths: list[int], sessions: int
) -> None:
    world = folder(preserve_timestamp=True)
    world.max_sessions = sessions
    world.fill(12)
    for rule in rules:
        world.script.add(*rule)
    for step in deaths:
        if world.store.status == "ACTIVE":
            await world.killed_slice(step)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert all(row.file.checksum for row in world.store.rows.values())


# ---- bounds


@pytest.mark.parametrize("sessions", [3, 4, 5, 6, 9])
async def test_lanes_leave_room_for_the_sessions_that_verify(sessions: int) -> None:
    world = folder(perf_cc=8)
    world.max_sessions = sessions
    world.fill(100)
    world.source.write("/src/large", b"0123456789", scale=10 * MB)
    world.slow(0.01)
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.most_taken <= 2 * sessions


async def test_lanes_stop_while_too_many_files_wait_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post_transfer, "MOST_WAITING", 20)
    world = folder(perf_cc=2, perf_pp=3)
    world.fill(200)
    world.slow(1.0)
    most = 0

    async def watch() -> None:
        nonlocal most
        while world.store.status == "ACTIVE":
            most = max(most, len(world.sessions.moved) - world.store.count(State.DONE))
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    assert await world.run() == "SUCCEEDED"
    await watching
    assert 20 <= most < 20 + 2 * 2 * 10
    assert len(world.sessions.moved) == 200


async def test_the_checksum_of_a_large_file_holds_up_no_small_one() -> None:
    world = folder()
    world.fill(50)
    world.source.write("/src/large", b"0123456789", scale=10 * MB)
    world.checksum_seconds = {"/src/large": 100, "/dst/large": 100}
    done = asyncio.create_task(world.run())
    await world.until(lambda: "/src/large" in world.sessions.moved)
    await world.until(lambda: world.store.count(State.DONE) == 50)
    assert world.seconds() < 10
    assert await done == "SUCCEEDED"


async def test_no_session_waits_for_a_large_file_to_arrive() -> None:
    world = folder()
    world.max_sessions, world.chunk, world.latency = 3, MB, 0.05
    world.sessions = world.new_sessions(None)
    world.source.write("/src/large", b"0" * 100, scale=MB)
    done = asyncio.create_task(world.run())
    await asyncio.sleep(2)
    assert not world.sessions.moved
    assert world.sessions.taken == 4, "the desk's and the lane's"
    assert await done == "SUCCEEDED"


def test_many_small_files_are_compared_on_both_sessions_and_few_on_one() -> None:
    async def opened(count: int) -> int:
        world = folder(perf_cc=1)
        world.max_sessions = 9
        world.fill(count)
        world.slow(0.5)
        assert await world.run() == "SUCCEEDED"
        return world.sessions.most_taken

    few, many = run(opened(10)), run(opened(300))
    assert many == few + 2, "one more on each side"


# ---- external_checksum


def item(content: bytes, algorithm: str = "MD5") -> ItemRow:
    value = hashlib.new(algorithm, content).hexdigest()
    return ItemRow(0, "/src/one", "/dst/one", None, 0, Checksum(algorithm, value))


def given_one(content: bytes, algorithm: str = "MD5", **options: object) -> CheckedWorld:
    world = CheckedWorld(
        [item(content, algorithm), ("/src/two", "/dst/two", None)], options={"external_checksum": True}
    )
    world.options.update(options)
    world.source.write("/src/one", b"the one")
    world.source.write("/src/two", b"the other")
    return world


@pytest.mark.parametrize("algorithm", ["MD5", "SHA1", "SHA256"])
@pytest.mark.parametrize("verify", [False, True])
async def test_a_given_checksum_is_compared_even_where_nothing_else_is(algorithm: str, verify: bool) -> None:
    world = given_one(b"the one", algorithm, verify_checksum=verify)
    assert await world.run() == "SUCCEEDED"
    one, two = (world.store.file(path).file for path in ("/src/one", "/src/two"))
    assert one.checksum == Checksum(algorithm, hashlib.new(algorithm, b"the one").hexdigest())
    assert (two.checksum is not None) == verify
    assert world.store.totals.bytes_checksummed == 7 + 9 * verify


@pytest.mark.parametrize("verify", [False, True])
async def test_a_source_that_is_not_what_the_user_says_is_given_up_at_once(verify: bool) -> None:
    world = given_one(b"something else", verify_checksum=verify)
    assert await world.run() == "FAILED"
    row = world.store.file("/src/one")
    assert row.state is State.FAILED
    assert row.fault
    assert (row.fault.kind, row.fault.side) == (Kind.EXTERNAL_CHECKSUM_MISMATCH, Side.SOURCE)
    assert world.store.file("/src/two").state is State.DONE
    assert world.sessions.moved.count("/src/one") == 1


async def test_a_destination_that_is_not_what_the_user_says_is_sent_again() -> None:
    world = given_one(b"the one")
    world.rot = {"/dst/one": 2}
    assert await world.run() == "SUCCEEDED"
    assert world.store.codes().count(Kind.EXTERNAL_CHECKSUM_MISMATCH) == 2
    faults = [one.fault for batch in world.store.writes for one in batch.faulted]
    assert {fault.side for fault in faults} == {Side.DESTINATION}
    assert world.destination.get("/dst/one").content == b"the one"


async def test_an_algorithm_that_one_side_does_not_know_fails_its_own_file_only() -> None:
    world = given_one(b"the one", "SHA512", verify_checksum=True)
    assert await world.run() == "FAILED"
    fault = next(iter(world.store.items.values())).fault
    assert fault
    assert (fault.kind, fault.retryable) == (Kind.UNSUPPORTED, False)
    assert "SHA512" in fault.advice
    assert world.store.file("/src/two").state is State.DONE


@pytest.mark.parametrize("verify", [False, True])
async def test_an_algorithm_without_a_checksum_says_only_how_to_verify(verify: bool) -> None:
    items = [ItemRow(0, "/src/", "/dst/", None, 0, Checksum("SHA1", ""))]
    world = CheckedWorld(items, options={"verify_checksum": verify})
    world.fill(3)
    assert await world.run() == "SUCCEEDED"
    algorithms = {row.file.checksum and row.file.checksum.algorithm for row in world.store.rows.values()}
    assert algorithms == ({"SHA1"} if verify else {None})


async def test_a_folder_has_no_checksum() -> None:
    world = CheckedWorld([replace(item(b""), source_path="/src")])
    world.fill(1)
    assert await world.run() == "FAILED"
    assert world.store.codes().count(Kind.IS_A_DIRECTORY) == 1


# ---- preserve_timestamp


def times(world: World) -> dict[str, datetime | None]:
    return {path: world.destination.get(f"/dst{path}").modified for path in world.destination.files("/dst")}


@pytest.mark.parametrize("verify", [False, True])
async def test_files_keep_their_times(verify: bool) -> None:
    world = folder(verify_checksum=verify, preserve_timestamp=True)
    world.fill(400)
    assert await world.run() == "SUCCEEDED"
    assert times(world) == {f"/f{n:03}": YESTERDAY + timedelta(days=n) for n in range(400)}


async def test_a_time_that_no_listing_reported_is_asked_for() -> None:
    world = folder(preserve_timestamp=True)
    node = world.source.write("/src/one", b"1")
    world.slow(1)
    unblock = asyncio.create_task(world.until(lambda: bool(world.store.rows)))
    unblock.add_done_callback(lambda _: setattr(node, "modified", YESTERDAY))
    assert await world.run() == "SUCCEEDED"
    assert times(world) == {"/one": YESTERDAY}


async def test_a_file_that_grew_gets_the_time_that_it_has_now() -> None:
    world = folder(preserve_timestamp=True)
    world.fill(3)
    world.latency = world.sessions.latency = 0.1

    async def grow() -> None:
        await world.until(lambda: bool(world.store.rows))
        world.source.write("/src/f001", b"grown").modified = YESTERDAY + timedelta(hours=1)

    growing = asyncio.create_task(grow())
    assert await world.run() == "SUCCEEDED"
    await growing
    assert times(world)["/f001"] == YESTERDAY + timedelta(hours=1)


async def test_a_file_that_is_sent_again_gets_its_time_again() -> None:
    world = folder(preserve_timestamp=True)
    world.fill(3)
    world.rot = {"/dst/f001": 1}
    assert await world.run() == "SUCCEEDED"
    assert times(world)["/f001"] == YESTERDAY + timedelta(days=1)


async def test_times_that_are_refused_are_one_warning_a_task_and_no_failure() -> None:
    world = folder(preserve_timestamp=True)
    world.slice_seconds, world.may_time_out = 2, True
    world.fill(600)
    world.slow(1.0)
    world.script.add("utime", "", make_fault(Kind.UNKNOWN, "500 MFMT: what?"), -1)
    assert await world.run() == "SUCCEEDED"
    assert len(world.outcomes) > 1
    assert world.store.codes().count(WARNING) == 1
    assert world.store.totals.faults == 0


@pytest.mark.parametrize("times_lost", [1, 2, 3, 7])
async def test_a_connection_that_is_lost_over_times_is_tried_again_but_not_for_ever(times_lost: int) -> None:
    world = folder(preserve_timestamp=True)
    world.fill(5)
    world.script.add("utime", "/dst/f003", LOST, times_lost)
    assert await world.run() == "SUCCEEDED"
    assert (times(world)["/f003"] is None) == (times_lost > 2)
    assert world.store.codes().count(WARNING) == (times_lost > 2)
