"""The end of a worker's sessions."""

from __future__ import annotations

import asyncio

from workers.sessions.pool import SessionPool


async def end_pool(pool: SessionPool) -> None:
    """End a worker's sessions after a slice, which has given all of them back. asyncssh takes several turns for it."""
    for _ in range(20):
        await asyncio.sleep(0)
    _, in_use = pool.counts()
    pool.forget("")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not in_use, f"{in_use} sessions are still in use after the slice"
