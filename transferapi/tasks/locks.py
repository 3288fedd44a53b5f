"""Advisory locks of PostgreSQL, held until the end of the transaction: for rules over rows that do not exist yet."""

from __future__ import annotations

import hashlib

from django.db import connection


def take(*names: str) -> None:
    """Wait for these locks, always in the same order. Call it in a transaction, before what must not race.

    A lock is a number of 64 bits computed from the name: where two names share one, they wait for each other.
    """
    keys = sorted(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True) for name in names)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def take_if_free(name: str) -> bool:
    """Take the lock without waiting; return whether this transaction has it now."""
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        return bool(cursor.fetchone()[0])
