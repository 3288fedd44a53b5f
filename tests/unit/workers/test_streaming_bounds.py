"""The bounds of a worker that streams: octets in memory, and octets a second."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from endpoints.gridftp.streams.file_streams import OctetBudget
from workers.streaming.bandwidth import BURST, Bandwidth


async def test_who_waits_first_for_memory_is_served_first() -> None:
    budget = OctetBudget(100)
    one, other = budget.share(), budget.share()
    await one.take(80)
    order: list[str] = []

    async def wait(name: str, octets: int) -> None:
        await other.take(octets)
        order.append(name)

    large, small = asyncio.create_task(wait("large", 90)), asyncio.create_task(wait("small", 5))
    await asyncio.sleep(0)
    assert not other.try_take(1), "nobody overtakes"
    one.close()
    await asyncio.gather(large, small)
    assert (order, budget.free) == (["large", "small"], 5)
    other.close()
    assert budget.free == 100


async def test_a_file_that_is_given_up_while_it_waits_takes_nothing() -> None:
    budget = OctetBudget(10)
    holder, waiter = budget.share(), budget.share()
    await holder.take(10)
    first, second = asyncio.create_task(waiter.take(10)), asyncio.create_task(waiter.take(3))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    holder.close()
    await second
    assert (budget.free, waiter.held) == (7, 3)


async def test_a_file_that_is_given_up_at_the_moment_of_its_turn_gives_it_back() -> None:
    budget = OctetBudget(10)
    holder, waiter = budget.share(), budget.share()
    await holder.take(10)
    task = asyncio.create_task(waiter.take(10))
    await asyncio.sleep(0)
    holder.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (budget.free, waiter.held) == (10, 0)


async def test_more_than_the_whole_budget_is_the_whole_budget() -> None:
    budget = OctetBudget(10)
    share = budget.share()
    async with asyncio.timeout(1):
        await share.take(1000)
    assert budget.free == 0


async def test_tasks_take_turns_however_many_pieces_one_of_them_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    bandwidth = Bandwidth(1000)
    served: list[str] = []

    async def move(task_id: str) -> None:
        await bandwidth.take(task_id, 100)
        served.append(task_id)

    moving = [asyncio.create_task(move(name)) for name in "a" * 20 + "b" * 5]
    for _ in range(10):
        await asyncio.sleep(0)
        now[0] += 0.1
        bandwidth._serve()
    await asyncio.sleep(0)
    assert Counter(served)["b"] == 5, "the greedy task does not hold up the modest one"
    assert len(served) <= 10 + BURST * 1000 / 100 + 2
    for task in moving:
        task.cancel()
    await asyncio.gather(*moving, return_exceptions=True)
    if bandwidth._timer:
        bandwidth._timer.cancel()


async def test_without_a_rate_nobody_waits() -> None:
    bandwidth = Bandwidth(0)
    async with asyncio.timeout(1):
        for _ in range(1000):
            await bandwidth.take("a", 10**9)
