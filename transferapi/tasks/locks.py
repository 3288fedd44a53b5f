"""Advisory locks of PostgreSQL, held until the end of the transaction: for rules over rows that do not exist yet."""

from __future__ import annotations

import hashlib

from identity.database_rows import execute, query_rows


def take(*names: str) -> None:
    """Wait for these locks, always in the same order. Call it in a transaction, before what must not race.

    A lock is a number of 64 bits computed from the name: where two names share one, they wait for each other.
    """
    execute(TAKE, {"locks": numbers(*names)})


#: The statement of `take`. locks: `numbers` of the names.
TAKE = "SELECT pg_advisory_xact_lock(key) FROM unnest(%(locks)s::bigint[]) AS key"


def numbers(*names: str) -> list[int]:
    """The numbers of these locks, in the order in which they are taken."""
    return sorted(map(number, names))


def take_if_free(name: str) -> bool:
    """Take the lock without waiting; return whether this transaction has it now."""
    [(taken,)] = query_rows("SELECT pg_try_advisory_xact_lock(%s)", [number(name)])
    return bool(taken)


def number(name: str) -> int:
    """The number of the lock with this name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
