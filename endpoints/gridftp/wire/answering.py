"""Which address of a name is to be connected to: of IPv4 and IPv6, the one that answers first (RFC 8305).

Only names with addresses of both families are tried: many of them have a family that leads nowhere. Nothing is sent,
and the connections are closed at once; the caller connects to the address in its own way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import zip_longest

from endpoints.gridftp.wire.fenced_socket import connect

#: Seconds between the attempts (RFC 8305 section 5), and for all of them.
ATTEMPT_DELAY, LIMIT = 0.25, 3.0
#: Addresses that are tried.
MOST_ATTEMPTS = 6


async def by_answer(
    hosts: Sequence[str], port: int, *, delay: float = ATTEMPT_DELAY, limit: float = LIMIT
) -> list[str]:
    """These addresses, which have passed the gate, with the one first that answered first; else in their order."""
    first = await _first(_interleaved(hosts)[:MOST_ATTEMPTS], port, delay, limit) if _both_families(hosts) else None
    return list(hosts) if first is None else [first, *(host for host in hosts if host != first)]


def _both_families(hosts: Sequence[str]) -> bool:
    return len({":" in host for host in hosts}) == 2


def _interleaved(hosts: Sequence[str]) -> list[str]:
    """The families in turn, that of the first address first (RFC 8305 section 4)."""
    kind = ":" in hosts[0]
    pairs = zip_longest([host for host in hosts if (":" in host) is kind], [h for h in hosts if (":" in h) is not kind])
    return [host for pair in pairs for host in pair if host is not None]


async def _first(hosts: Sequence[str], port: int, delay: float, limit: float) -> str | None:
    attempts = [asyncio.create_task(_connects(host, port, number * delay)) for number, host in enumerate(hosts)]
    try:
        async with asyncio.timeout(limit):
            for done in asyncio.as_completed(attempts):
                with contextlib.suppress(OSError):
                    return await done
    except TimeoutError:
        pass
    finally:
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
    return None


async def _connects(host: str, port: int, after: float) -> str:
    await asyncio.sleep(after)
    (await connect(host, port)).close()
    return host
