"""The one signal by which the parts of a slice make it continue."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.unit.engine.world import World
from workers.engine.credentials import Credentials
from workers.engine.work import SliceContext

pytestmark = pytest.mark.virtual_time


def context() -> SliceContext:
    world = World([("/src/", "/dst/", None)])
    credentials = Credentials(world.credential_provider, world.clock)
    return SliceContext(world.spec(), world.store.lease(), world.sessions, credentials, world.clock, lambda: 0.5)


async def waited(work: SliceContext) -> float:
    """Seconds of one wait of at most a minute."""
    began = work.clock.now()
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await work.wait_for_more()
    return (work.clock.now() - began).total_seconds()


async def test_a_report_before_the_wait_is_not_lost() -> None:
    work = context()
    work.more_to_do()
    assert await waited(work) == 0


async def test_several_reports_before_the_wait_count_as_one() -> None:
    work = context()
    for _ in range(3):
        work.more_to_do()
    assert await waited(work) == 0
    assert await waited(work) == 60


async def test_a_report_during_the_wait_ends_it() -> None:
    work = context()
    asyncio.get_running_loop().call_later(5, work.more_to_do)
    assert await waited(work) == pytest.approx(5)
