"""Fences of slices, for tests."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.wire.fence import Fence

#: Seconds that a fence is open after a heartbeat, as in `workers.slice_preparation`.
LASTS = 3.5


def open_fence() -> Fence:
    """A fence that stays open, for what is not in a slice."""
    fence = Fence(1e9)
    fence.extend(fence.now())
    return fence


def virtual_fence() -> Fence:
    """The fence of one slice, by the time of the running loop."""
    return Fence(LASTS, asyncio.get_running_loop().time)
