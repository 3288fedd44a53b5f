"""What the engine tells of endpoints that cannot be reached, and of how data channels are protected."""

from __future__ import annotations

import pytest

from endpoints.gridftp.faults import Fault, Kind, Scope, Side, make_fault
from tests.unit.engine_world import World
from workers.engine.fakes import run
from workers.engine.fakes.sessions import MemoryLane
from workers.engine.ports import AUTHENTICATED, CLEAR, TCP, Protection, Transport


def folder_world(count: int, **more: object) -> World:
    world = World([("/src/", "/dst/", None)], **more)  # type: ignore[arg-type]
    for number in range(count):
        world.source.write(f"/src/{number}", b"content")
    return world


@pytest.mark.parametrize("step", ["open", "lane"])
@pytest.mark.parametrize("side", [Side.DESTINATION, Side.UNKNOWN])
@pytest.mark.parametrize("times", [1, 9])
def test_trouble_is_told_while_it_lasts_and_is_over_when_the_server_is_reached(
    step: str, side: Side, times: int
) -> None:
    """Also in another slice than the one that met it."""

    async def main() -> None:
        world = folder_world(20)
        world.script.add(step, "", make_fault(Kind.CONNECT_FAILED, side=side), times)
        assert await world.run() == "SUCCEEDED"
        assert "CONNECT_FAILED" in world.store.codes()
        assert world.store.trouble is None

    run(main())


def test_a_protection_is_told_once_and_again_where_a_lane_is_weaker() -> None:
    async def main() -> None:
        world = folder_world(400)
        lanes = iter([Protection(AUTHENTICATED), Protection(CLEAR), Protection(AUTHENTICATED)])
        opened = world.sessions.lane

        async def lane(*, transport: Transport = TCP) -> MemoryLane:
            new = await opened(transport=transport)
            new.protection = next(lanes, Protection(CLEAR))
            return new

        world.sessions.lane = lane  # type: ignore[method-assign]
        assert await world.run() == "SUCCEEDED"
        assert [one.level for one in world.store.protections] == [AUTHENTICATED, CLEAR]

    run(main())


def test_an_endpoint_that_ends_the_task_is_named_with_what_its_server_said() -> None:
    async def main() -> None:
        world = folder_world(1)
        words = "DCSC P: 500 Command not supported."
        fault = Fault(Kind.UNSUPPORTED, Side.DESTINATION, False, Scope.ENDPOINT, "The data cannot be encrypted.", words)
        world.script.add("lane", "", fault, -1)
        assert await world.run() == "FAILED"
        assert world.store.fatal == (
            "UNSUPPORTED",
            f"go#ep2 (the destination): The data cannot be encrypted. The server said: {words}",
        )

    run(main())
