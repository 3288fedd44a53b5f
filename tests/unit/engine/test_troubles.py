"""Reports of the engine on endpoints that it cannot reach, and on the protection of data channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, make_fault
from tests.engine_fakes import MemoryLane, MemoryLease, MemoryStore
from tests.unit.engine.world import World
from transferapi.tasks.records import AUTHENTICATED, CLEAR, DataProtection
from workers.engine.control_sessions import QUIET
from workers.engine.ports import TCP, Transport

pytestmark = pytest.mark.virtual_time


def folder_world(count: int, **more: object) -> World:
    world = World([("/src/", "/dst/", None)], **more)  # type: ignore[arg-type]
    for number in range(count):
        world.source.write(f"/src/{number}", b"content")
    return world


@pytest.mark.parametrize("step", ["open", "lane"])
@pytest.mark.parametrize("side", [Side.DESTINATION, Side.UNKNOWN])
@pytest.mark.parametrize("times", [1, 9])
async def test_trouble_is_reported_while_it_lasts_and_is_over_when_the_server_is_reached(
    step: str, side: Side, times: int
) -> None:
    """Also in another slice than the one that met it."""
    world = folder_world(20)
    world.script.add(step, "", make_fault(Kind.CONNECT_FAILED, side=side), times)
    assert await world.run() == "SUCCEEDED"
    assert "CONNECT_FAILED" in world.store.codes()
    assert world.store.trouble is None


async def test_a_server_that_is_silent_is_reported_at_once_until_it_answers() -> None:
    world = folder_world(3, latency=QUIET * 2)
    running = asyncio.create_task(world.run())
    await asyncio.sleep(QUIET * 3.5)
    told = world.store.trouble
    assert told
    assert told[0] == Kind.TIMEOUT
    assert await running == "SUCCEEDED"
    assert world.store.trouble is None


async def test_a_server_that_answers_slowly_is_not_silent() -> None:
    world = folder_world(3, latency=QUIET * 0.9)
    assert await world.run() == "SUCCEEDED"
    assert Kind.TIMEOUT not in world.store.codes()


async def test_a_protection_is_reported_once_and_again_where_a_lane_is_weaker() -> None:
    world = folder_world(400)
    lanes = iter([DataProtection(AUTHENTICATED), DataProtection(CLEAR), DataProtection(AUTHENTICATED)])
    opened = world.sessions.lane

    async def lane(*, transport: Transport = TCP, relayed: bool = False) -> MemoryLane:
        new = await opened(transport=transport)
        new.protection = next(lanes, DataProtection(CLEAR))
        return new

    world.sessions.lane = lane  # type: ignore[method-assign]
    assert await world.run() == "SUCCEEDED"
    assert [one.level for one in world.store.protections] == [AUTHENTICATED, CLEAR]


async def test_an_endpoint_that_ends_the_task_is_named_with_what_its_server_said() -> None:
    world = folder_world(1)
    words = "DCSC P: 500 Command not supported."
    fault = Fault(
        Kind.UNSUPPORTED, Side.DESTINATION, False, FaultScope.ENDPOINT, "The data cannot be encrypted.", words
    )
    world.script.add("lane", "", fault, -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal == (
        "UNSUPPORTED",
        f"go#ep2 (the destination): The data cannot be encrypted. The server said: {words}",
    )


SECRET = "text-of-an-unexpected-error"
SENTENCE = "The task continues later. The operator finds the cause in the worker's log, under the id of the task."


@pytest.mark.parametrize(
    "call", ["heartbeat", "unscanned", "add_found", "item_scanned", "event", "write", "counts", "finish"]
)
async def test_the_text_of_an_unexpected_error_is_in_the_log_and_in_no_event(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever part of the slice meets it, the user sees the same fixed sentence."""

    class Broken(MemoryLease):
        @asynccontextmanager
        async def _call(self, name: str) -> AsyncIterator[MemoryStore]:
            if name == call and not failed:
                failed.append(name)
                raise ZeroDivisionError(SECRET)
            async with super()._call(name) as store:
                yield store

    def next_epoch() -> int:
        world.store.epoch += 1
        world.store.held = True
        return world.store.epoch

    failed: list[str] = []
    world = folder_world(20)
    world.store.lease = lambda *_: Broken(world.store, next_epoch())  # type: ignore[method-assign]
    assert await world.run() == "SUCCEEDED"
    assert failed == [call]
    (event,) = [event for event in world.store.events if event.is_error]
    assert (event.code, event.description, event.details) == ("INTERNAL_ERROR", f"unknown: {SENTENCE}", "")
    assert SECRET not in repr([world.store.events, world.store.trouble, world.store.fatal])
    (record,) = [record for record in caplog.records if record.name == "workers.engine.slice"]
    assert record.exc_info is not None
    assert SECRET in str(record.exc_info[1])
    assert record.exc_info[2] is not None, "with its traceback"
