"""The token bucket of a slice."""

from __future__ import annotations

import asyncio
import threading

import pytest

from workers.streaming.pacer import BURST, Pacer

RATE = 1_000_000


async def seconds_for(pacer: Pacer, *pieces: int) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for piece in pieces:
        await pacer.take(piece)
    return loop.time() - begun


async def test_without_a_rate_nothing_waits() -> None:
    assert await seconds_for(Pacer(), 10**12, 10**12) < 0.05


async def test_the_mean_is_the_rate() -> None:
    pacer = Pacer()
    pacer.set_rate(RATE)
    pieces = [RATE // 50] * 40
    # The last piece is not waited for.
    wanted = sum(pieces[:-1]) / RATE
    assert wanted - BURST <= await seconds_for(pacer, *pieces) < wanted + 0.2


async def test_a_large_piece_is_paid_afterwards() -> None:
    pacer = Pacer()
    pacer.set_rate(RATE)
    await asyncio.sleep(0.02)
    assert await seconds_for(pacer, RATE // 2) < 0.1
    assert 0.2 <= await seconds_for(pacer, 1) < 0.7


@pytest.mark.parametrize("rate", [100 * RATE, None])
async def test_a_higher_rate_serves_those_that_wait(rate: float | None) -> None:
    pacer = Pacer()
    pacer.set_rate(RATE)
    await pacer.take(100 * RATE)
    waiting = asyncio.ensure_future(pacer.take(1))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    pacer.set_rate(rate)
    async with asyncio.timeout(3):
        await waiting


async def test_a_lower_rate_forgets_what_it_could_not_pay_soon() -> None:
    pacer = Pacer()
    pacer.set_rate(1000 * RATE)
    await asyncio.sleep(0.01)
    await pacer.take(500 * RATE)
    pacer.set_rate(RATE)
    async with asyncio.timeout(3):
        await pacer.take(1)


async def test_who_stops_to_wait_holds_up_nobody() -> None:
    pacer = Pacer()
    pacer.set_rate(RATE)
    await asyncio.sleep(0.02)
    await pacer.take(RATE // 10)
    gone = [asyncio.ensure_future(pacer.take(100 * RATE)) for _ in range(3)]
    await asyncio.sleep(0)
    for one in gone:
        one.cancel()
    async with asyncio.timeout(2):
        await pacer.take(1)


async def test_the_rate_is_changed_from_another_thread() -> None:
    pacer = Pacer()
    pacer.change(RATE)
    pacer.begin("parts")
    assert (pacer.rate, pacer.how) == (RATE, "parts")
    thread = threading.Thread(target=pacer.change, args=(5.0 * RATE,))
    thread.start()
    thread.join()
    await asyncio.sleep(0.01)
    assert pacer.rate == 5 * RATE
