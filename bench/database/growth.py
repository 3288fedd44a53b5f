"""Rows and octets of each table of the database; count, octets and end of each kind of key in Redis."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import redis

#: Parts of a key that differ from one key of a kind to the next.
_PARTS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"[0-9a-f]{16,}"), "HEX"),
    (re.compile(r"\d+(\.\d+){3}(/\d+)?"), "ADDRESS"),
    (re.compile(r"(?<![A-Za-z])\d{2,}"), "N"),
)


@dataclass(frozen=True)
class Table:
    rows: int
    octets: int
    dead: int


@dataclass
class Keys:
    """endless: how many of them have no TTL. longest: the most elements of a list, set or hash."""

    count: int = 0
    octets: int = 0
    endless: int = 0
    longest: int = 0


def tables() -> dict[str, Table]:
    """Of all tables with rows. dead: rows that are deleted and whose place is not free again."""
    from django.db import connection

    found: dict[str, Table] = {}
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        for name, octets, dead in cursor.fetchall():
            cursor.execute(f"SELECT count(*) FROM {name}")
            found[name] = Table(int(cursor.fetchone()[0]), int(octets), int(dead))
    return {name: table for name, table in found.items() if table.rows or table.octets > 65536}


def vacuum() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def narrow_sequences() -> list[tuple[str, int]]:
    """The sequences of less than 64 bits, with their last value."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(_SEQUENCES)
        return [(str(name), int(last)) for name, last in cursor.fetchall()]


def keys(server: redis.Redis) -> dict[str, Keys]:
    """Of all keys that have not ended, by the pattern of their names."""
    found: dict[str, Keys] = defaultdict(Keys)
    for name in server.scan_iter(count=1000):
        left = server.pttl(name)
        if left == -2:
            continue
        kind = found[pattern(name.decode("utf-8", "replace"))]
        kind.count += 1
        kind.octets += int(server.memory_usage(name) or 0)
        kind.endless += left == -1
        kind.longest = max(kind.longest, _length(server, name))
    return dict(sorted(found.items()))


def pattern(name: str) -> str:
    for part, word in _PARTS:
        name = part.sub(word, name)
    return name


def _length(server: redis.Redis, name: bytes) -> int:
    kind = server.type(name)
    kind = kind.decode() if isinstance(kind, bytes) else kind
    sizes = {"list": server.llen, "set": server.scard, "hash": server.hlen, "zset": server.zcard}
    return int(sizes[kind](name)) if kind in sizes else 1


_TABLES = """
    SELECT c.relname, pg_total_relation_size(c.oid), coalesce(s.n_dead_tup, 0)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE c.relkind = 'r' AND n.nspname = 'public' ORDER BY 1"""
_SEQUENCES = """
    SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences
    WHERE schemaname = 'public' AND data_type <> 'bigint'::regtype ORDER BY 1"""
