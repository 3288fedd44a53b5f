"""A pooler, such as PgBouncer, before PostgreSQL: it must give each client a session of its own.

In the modes "transaction" and "statement" the session changes between two transactions. With it would change what the
service keeps there: LISTEN of the streams of events, the lock of the session that migrates, and the time limits of
`config.servers`, without which a statement may last for ever. So a process that meets one refuses to start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.extensions

_INSTEAD = "name PostgreSQL itself in DATABASE_URL, or a pool with pool_mode=session; docs/operate/external-servers.md"
SHARED = f"DATABASE_URL leads to a pooler (PgBouncer?) that changes sessions between transactions: {_INSTEAD}"
NO_LIMITS = (
    "DATABASE_URL leads to a pooler (PgBouncer?) that does not pass on the time limits of sessions (`options`): "
    "set them for the role, as docs/operate/external-servers.md says, or name PostgreSQL itself"
)
#: The words of PgBouncer about the parameter `options`, where `ignore_startup_parameters` does not name it.
_UNSUPPORTED = "unsupported startup parameter"
#: Looks at two sessions: a pooler may happen to give both clients the same one twice.
_LOOKS = 5

Open = Callable[[], psycopg2.extensions.connection]


class PoolerError(Exception):
    """The sessions cannot be used; `str` is a sentence for operators."""


def check(open_session: Open) -> None:
    """Raises PoolerError, psycopg2.Error."""
    with contextlib.closing(open_session()) as one:
        one.autocommit = True
        # A pooler answers a new connection by itself, and not with the number of a process of PostgreSQL.
        if _ask(one, "SELECT pg_backend_pid()") == one.info.backend_pid:
            return
        with contextlib.closing(open_session()) as two:
            if any(_is_shared(one, two) for _ in range(_LOOKS)):
                raise PoolerError(SHARED)
        if _ask(one, "SELECT 0 IN (SELECT setting::bigint FROM pg_settings WHERE name = ANY(%s))", [_LIMITS]):
            raise PoolerError(NO_LIMITS)


_LIMITS = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]


def refusal_of(error: BaseException) -> str:
    """The sentence where a pooler has refused the connection itself; "" if it was not so."""
    return NO_LIMITS if _UNSUPPORTED in str(error) else ""


def _is_shared(one: psycopg2.extensions.connection, two: psycopg2.extensions.connection) -> bool:
    """Whether a transaction of the second client has the session of the first, or changes it."""
    first = _ask(one, "SELECT pg_backend_pid()")
    try:
        return bool(_ask(two, "SELECT pg_backend_pid()") == first or _ask(one, "SELECT pg_backend_pid()") != first)
    except psycopg2.Error:
        # In the mode "statement" it allows no transaction of several statements.
        return True
    finally:
        with contextlib.suppress(psycopg2.Error):
            two.rollback()


def _ask(connection: psycopg2.extensions.connection, statement: str, values: list[Any] | None = None) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone()
    return row[0] if row else None
