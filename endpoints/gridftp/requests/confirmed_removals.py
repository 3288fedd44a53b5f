"""Removals that a server confirms: whether what it has confirmed is gone.

Some servers confirm each DELE and RMD, and remove nothing: storage that keeps its files for a legal term, gateways to
object stores, Windows while another program has the file open. A look behind the last removal of each tree is in the
round trip of the removals. Below a folder that is gone nothing is left, so folders inside it are not looked at; of
files the last one stands for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from endpoints.gridftp.faults import Fault, Kind, make_fault

#: Seconds after which what is still there is looked at for the last time: some servers remove a little later.
LATER = 2.0
STILL_THERE = "the server confirms that it has removed this, and it is still there"

Entry = tuple[str, bool]


async def remove_in_windows(
    entries: Sequence[Entry],
    size: int,
    remove: Callable[[str, bool], Awaitable[Fault | None]],
    is_there: Callable[[str, bool], Awaitable[bool]] | None,
) -> list[Fault | None]:
    """Remove each (path, is_directory), so many at once, in this order; None for success.

    is_there: sends a request that shows whether the entry exists; None: the server removes what it confirms. Raises the
    errors of both.
    """
    outcome: list[Fault | None] = []
    for start in range(0, len(entries), size):
        window = entries[start : start + size]
        looks = _tops(window) if is_there else []
        removals = asyncio.gather(*(remove(*entry) for entry in window))
        seen = asyncio.gather(*(is_there(*window[index]) for index in looks)) if is_there else _nothing()
        found, there = await asyncio.gather(removals, seen)
        if is_there and any(shown and found[index] is None for index, shown in zip(looks, there, strict=True)):
            found = await _looked_at(window, found, is_there)
        outcome += found
    return outcome


async def _nothing() -> list[bool]:
    return []


def _tops(window: Sequence[Entry]) -> list[int]:
    """The folders that lie in no other folder of these, and the last file."""
    folders = {path for path, folder in window if folder}
    tops = [index for index, (path, folder) in enumerate(window) if folder and path.rpartition("/")[0] not in folders]
    last_file = [index for index, (_, folder) in enumerate(window) if not folder][-1:]
    return tops + last_file


async def _looked_at(
    window: Sequence[Entry], found: list[Fault | None], is_there: Callable[[str, bool], Awaitable[bool]]
) -> list[Fault | None]:
    """The outcomes, with a fault for each entry that is still there. A server may answer a look before the removal."""
    doubtful = [index for index, fault in enumerate(found) if fault is None]
    for pause in (0.0, LATER):
        if doubtful:
            await asyncio.sleep(pause)
        there = await asyncio.gather(*(is_there(*window[index]) for index in doubtful))
        doubtful = [index for index, shown in zip(doubtful, there, strict=True) if shown]
    for index in doubtful:
        found[index] = make_fault(Kind.ENDPOINT_ERROR, STILL_THERE, retryable=False)
    return found
