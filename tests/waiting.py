"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path


def eventually(condition: Callable[[], object], *, seconds: float = 90.0) -> None:
    """Return when the condition holds; fail when it has not after `seconds`: on a busy machine a second takes a minute.

    The pauses are a tenth of the time that has passed, from 10 ms to 0.25 s: a condition may cost requests, which delay
    the processes that it waits for.
    """
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds, f"not so after {seconds:g} s"
        time.sleep(min(0.25, max(0.01, waited / 10)))


def is_alive(pid: int) -> bool:
    """Whether the process is there, and is no zombie that only waits to be collected."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """The pids of its children (those of its main thread, which is who forks)."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants_of(pid: int) -> Iterator[int]:
    """Its children, their children, and so on."""
    for child in children_of(pid):
        yield child
        yield from descendants_of(child)
