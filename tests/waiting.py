"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Return as soon as the condition holds; fail when it has not after `seconds`."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not so after {seconds:g} s"
        time.sleep(0.01)
