"""The bandwidth of streamed tasks over several worker processes, with Redis, and without when it is away."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.stack.redis import Redis
from workers.runtime import Runtime
from workers.streaming import rate_share
from workers.streaming.bandwidth import BURST, Bandwidth
from workers.streaming.rate_share import KEY, MOST, UNKNOWN, RateShare


@pytest.fixture
def url(redis_server: Redis) -> Iterator[str]:
    with redis.Redis.from_url(redis_server.url()) as client:
        client.delete(KEY)
        yield redis_server.url()
        client.delete(KEY)


async def asked(*shares: RateShare) -> list[int]:
    """Each asks once, now, in this order."""
    for share in shares:
        share._ask_at = 0.0
        share.ask_if_due()
        if share._asking:
            await share._asking
    return [share.processes for share in shares]


async def test_processes_count_each_other_and_forget_those_that_stop(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_share, "GONE_SECONDS", 0.3)
    one, two, three = (RateShare(url, name) for name in ("one", "two", "three"))
    assert await asked(one) == [1]
    assert await asked(two, three, one) == [2, 3, 3]
    await asyncio.sleep(0.5)
    assert await asked(one) == [1]


async def test_two_processes_together_keep_to_the_rate(url: str) -> None:
    rate, seconds = 100_000, 2.0
    shares = [RateShare(url, name) for name in ("one", "two")]
    await asked(*shares, *shares)
    moved = 0

    async def move(bandwidth: Bandwidth) -> None:
        nonlocal moved
        while True:
            await bandwidth.take("task", 1000)
            moved += 1000

    moving = [asyncio.create_task(move(Bandwidth(rate, share))) for share in shares]
    await asyncio.sleep(seconds)
    for task in moving:
        task.cancel()
    await asyncio.gather(*moving, return_exceptions=True)
    assert moved <= rate * (seconds + 1.0) + 2 * BURST * rate
    assert moved >= rate * seconds / 4


async def test_without_redis_a_process_takes_a_small_part_and_keeps_what_it_knew(url: str) -> None:
    never = RateShare("unix:///there-is-none", "never")
    assert await asked(never) == [UNKNOWN]
    known = RateShare(url, "known")
    await asked(known)
    known._url = "unix:///there-is-none"
    assert await asked(known) == [1]
    loop = asyncio.get_running_loop()
    assert known._ask_at > loop.time() + 1, "a Redis that is away is asked seldom"


async def test_a_redis_that_hangs_delays_nobody(stack_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Redis(stack_home / "hanging-rate")
    server.start()
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        bandwidth = Bandwidth(1_000_000, RateShare(server.url(), "one"))
        async with asyncio.timeout(rate_share.REDIS_TIMEOUT):
            await bandwidth.take("task", 1000)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("forged", ["text", "members"])
async def test_what_others_write_to_redis_stops_no_task(url: str, forged: str) -> None:
    with redis.Redis.from_url(url) as client:
        members: Any = {f"forged-{number}": 9e15 for number in range(1000)}
        if forged == "text":
            client.set(KEY, "not a set")
        else:
            client.zadd(KEY, members)
    [processes] = await asked(RateShare(url, "one"))
    assert processes == (UNKNOWN if forged == "text" else MOST)


def test_the_runtime_of_a_worker_shares_the_rate(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((gc, "freeze"), (gc, "set_threshold"), (sys, "setswitchinterval")):
        monkeypatch.setattr(module, name, lambda *_: None)  # they are for a process of its own
    settings.STREAM_RATE = 1000
    runtime = Runtime()
    try:
        assert runtime.streaming.bandwidth._rate == 1000 / UNKNOWN
    finally:
        runtime.loop.call_soon_threadsafe(runtime.loop.stop)
        runtime._thread.join(60)
        runtime.loop.close()
