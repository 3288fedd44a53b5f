"""Connections to PostgreSQL that end when the server does not answer any more.

No setting of the server helps where the server hangs, and psycopg2 waits for ever in C. So each operation notes when it
began, and a thread (`watch`) looks at those that take long: it opens a connection of its own, and where this is not
answered, the server hangs. Then the thread shuts down the sockets of all connections, which raises OperationalError in
every operation. A statement that is merely slow goes on, because a server that works answers the thread. Nothing is
asked while no operation takes long. Why not psycopg2's wait callback: docs/decisions/0068-outages.md.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import psycopg2
import psycopg2.extensions

from . import hosts, outage
from .bounded import LONGEST_FACTOR, lengthened, within
from .outage import Outage


class DatabaseTimeouts(NamedTuple):
    """Seconds: for a new connection; until an operation takes long; and for the connection that is then tried."""

    connect: float
    operation: float
    trial: float


#: Where somebody waits for an answer; and in the background, where a verdict that is wrong costs more than a delay.
OF_REQUESTS, IN_BACKGROUND = DatabaseTimeouts(1.5, 0.5, 0.8), DatabaseTimeouts(10.0, 2.0, 3.0)
#: Seconds for a new connection at most where there are several hosts, one of which may be away.
ONE_OF_SEVERAL = 3.0
#: Seconds between two looks at all connections.
_LOOK = 0.2

_timeouts = IN_BACKGROUND
_connections: weakref.WeakSet[WatchedConnection] = weakref.WeakSet()
_lock = threading.Lock()
#: For libpq, from the last connection.
_reached_by: Mapping[str, Any] = {}
#: The number of the host, of several, that accepted writes when it was last looked for: new connections begin with it.
_first = 0
#: When the server last answered an operation.
_answered_at = 0.0


class WatchedConnection(psycopg2.extensions.connection):
    """A connection that can be ended from another thread."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        #: When the operation began that waits for the server; 0.0: none does.
        self.since = 0.0
        #: A connection that an outage has broken is often used after its end only, and then begins no other one.
        self._opened_at = time.monotonic()
        # A copy: libpq may close its descriptor at any time, and the number may then belong to another socket.
        self._line = os.dup(self.fileno())
        self._close_line = weakref.finalize(self, os.close, self._line)
        with _lock:
            _connections.add(self)

    @contextlib.contextmanager
    def operation(self) -> Iterator[None]:
        """Around what waits for the server."""
        global _answered_at
        self.since = time.monotonic()
        try:
            yield
            _answered_at = time.monotonic()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            if self.closed and is_outage(error) and (OUTAGE.is_on or self._opened_at > OUTAGE.ended_at):
                OUTAGE.met(error)
            raise
        finally:
            self.since = 0.0

    def hang_up(self) -> None:
        """End the connection: the operation that waits for it, or the next one, raises OperationalError."""
        if self._close_line.alive:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._line)) as line:
                line.shutdown(socket.SHUT_RDWR)

    def commit(self) -> None:
        with self.operation():
            super().commit()

    def rollback(self) -> None:
        with self.operation():
            super().rollback()

    def close(self) -> None:
        super().close()
        self._close_line()


class WatchedCursor(psycopg2.extensions.cursor):
    """A cursor whose operations are watched."""

    connection: WatchedConnection


def _watched(name: str, *, fetches: bool = False) -> Callable[..., Any]:
    """A method of psycopg2's cursor, as an operation. fetches: it asks the server only for a cursor with a name."""
    method = getattr(psycopg2.extensions.cursor, name)

    @functools.wraps(method)
    def call(self: WatchedCursor, *words: Any, **named: Any) -> Any:
        if fetches and self.name is None:
            return method(self, *words, **named)
        with self.connection.operation():
            return method(self, *words, **named)

    return call


for _name in ("execute", "executemany", "callproc", "copy_expert", "copy_from", "copy_to"):
    setattr(WatchedCursor, _name, _watched(_name))
for _name in ("fetchone", "fetchmany", "fetchall"):
    setattr(WatchedCursor, _name, _watched(_name, fetches=True))


def is_outage(error: BaseException) -> bool:
    """Whether this error of psycopg2 says that the server is away, and not that it refuses a statement."""
    code = getattr(error, "pgcode", None)
    # Class 57P: an administrator, a crash, a start. Class 08: the connection.
    return code is None or code.startswith(("57P", "08"))


def connect(
    opening: Callable[[Mapping[str, Any]], WatchedConnection], parameters: Mapping[str, Any]
) -> WatchedConnection:
    """A new connection; in processes that serve in bounded time, and at once an error while the server is away.

    parameters: by which libpq reaches the server. opening: is given them, perhaps with the hosts in another order.
    Raises psycopg2.OperationalError.
    """
    global _reached_by
    _reached_by = parameters
    if not outage.is_watching():
        return opening(parameters)
    if OUTAGE.refuses:
        OUTAGE.refused()
        raise psycopg2.OperationalError("PostgreSQL does not answer")
    several = "," in str(parameters.get("host") or "")
    seconds = min(_timeouts.connect, ONE_OF_SEVERAL) if several else _timeouts.connect
    given = hosts.beginning_with(parameters, _first)
    try:
        made = within(seconds, functools.partial(opening, given), WatchedConnection.close)
    except (psycopg2.OperationalError, TimeoutError) as error:
        OUTAGE.met(error, refuses=True)
        raise psycopg2.OperationalError(str(error)) from None
    if several:
        _begin_with(hosts.number_of(parameters, made))
    return made


def _begin_with(number: int) -> None:
    global _first
    _first = number


def _of_a_trial() -> list[hosts.Parameters]:
    """The parameters for each host. libpq must not end a trial, however long it is: its error would be an answer."""
    return hosts.of({**_reached_by, "connect_timeout": int(_timeouts.trial * LONGEST_FACTOR) + 2})


def _find_primary() -> None:
    """New connections begin with the host that accepts writes. Raises psycopg2.Error, TimeoutError: there is none."""
    find = functools.partial(hosts.find_writable, _of_a_trial(), lengthened(_timeouts.trial))
    _begin_with(within(_timeouts.trial, find))


OUTAGE = Outage("PostgreSQL", _find_primary, "requests get 503, and tasks wait")


def watch(timeouts: DatabaseTimeouts) -> None:
    """Watch the connections of this process from now on. Call it after the fork."""
    global _timeouts
    _timeouts = timeouts
    outage.watch()
    threading.Thread(target=_look_for_ever, name="database", daemon=True).start()


def _look_for_ever() -> None:
    pause = _LOOK
    while True:
        time.sleep(pause)
        pause = _timeouts.operation if _look_once() else _LOOK


def _look_once() -> bool:
    """End all connections where the server hangs. Returns whether operations are late."""
    began = time.monotonic()
    late = [one for one in _all() if one.since and began - one.since > _timeouts.operation]
    if late and not _answers(began):
        for one in _all():
            one.hang_up()
    return bool(late)


def _answers(began: float) -> bool:
    """Whether the host that is in use answers; another one says nothing about its connections."""
    each = _of_a_trial()
    try:
        within(_timeouts.trial, functools.partial(hosts.ask, each[_first % len(each)]))
    except TimeoutError as error:
        if _answered_at > began:
            return True
        OUTAGE.met(error, refuses=True)
        return False
    except psycopg2.Error:
        # An error is an answer too, for example that there are too many connections.
        pass
    return True


def _all() -> list[WatchedConnection]:
    with _lock:
        return list(_connections)
