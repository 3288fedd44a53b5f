"""Connections to PostgreSQL that end when the server does not answer any more.

No setting of the server helps where the server hangs, and psycopg2 waits for ever in C. So each operation notes when it
began, and a thread (`watch`) looks at those that take long: it opens a connection of its own, and where this is not
answered, the server hangs. Then the thread shuts down the sockets of all connections, which raises OperationalError in
every operation. A statement that is merely slow goes on, because a server that works answers the thread. Nothing is
asked while no operation takes long. Why not psycopg2's wait callback: docs/decisions/outages-and-connections.md.

The threads of such a process share its connections (docs/decisions/outages-and-connections.md).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import psycopg2
import psycopg2.errors
import psycopg2.extensions
from psycopg2.extensions import TRANSACTION_STATUS_IDLE
from psycopg2.sql import SQL, Composable

from . import connection_limits, hosts, outage
from .bounded import LONGEST_FACTOR, lengthened, within
from .connection_limits import is_full
from .outage import Outage
from .shared_connections import SharedConnections

log = logging.getLogger("waybill.outages")


class DatabaseTimeouts(NamedTuple):
    """Seconds: for a new connection; until an operation takes long; and for the connection that is then tried."""

    connect: float
    operation: float
    trial: float


class ConnectionBounds(NamedTuple):
    """role: the name of the process in the list of sessions of PostgreSQL (application_name).

    most: connections that it has at one time at most. leaves: of those that PostgreSQL allows, how many it leaves to
    other processes.
    """

    role: str = ""
    most: int = 1000
    leaves: int = 0


#: Where somebody waits for an answer; and in the background, where a verdict that is wrong costs more than a delay.
OF_REQUESTS, IN_BACKGROUND = DatabaseTimeouts(1.5, 0.5, 0.8), DatabaseTimeouts(10.0, 2.0, 3.0)
#: Seconds for a new connection at most where there are several hosts, one of which may be away.
ONE_OF_SEVERAL = 3.0
#: Seconds between two looks at all connections while there are operations: at least, and as a part of those after which
#: an operation takes long. Without operations, seconds between two searches for connections that nobody uses.
_LOOK, _PART, _REST = 0.2, 0.2, 5.0
#: Connections of a process above which a new one is opened only where no thread gives one back in these seconds: jobs
#: that begin together need a few milliseconds each, and a new connection costs PostgreSQL more.
FEW, BRIEF_WAIT = 2, 0.03
#: Connections that a process opens at a time.
OPENED_AT_ONCE = 2
#: Seconds between two attempts of a thread that waits for a connection which another one gives back.
_TURN = 0.25
#: Seconds after which a connection is replaced by a new one, which finds the server anew.
LONGEST_USE = 600.0
#: Seconds between two lines of the log about threads that wait for a connection of this process.
_SAY_SECONDS = 60.0

#: psycopg2's own property, which `WatchedConnection` hides.
_AUTOCOMMIT: Any = psycopg2.extensions.connection.autocommit

_timeouts = IN_BACKGROUND
_bounds = ConnectionBounds()
#: Connections that are being opened.
_opening = 0
_said_at = float("-inf")
_connections: weakref.WeakSet[WatchedConnection] = weakref.WeakSet()
#: Set by each operation: without one there is nothing to look at.
_under_way = threading.Event()
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
        #: Whether the next statement without a transaction begins one.
        self._begins = True
        #: Whether another thread may have it afterwards: not one whose session was changed, as by LISTEN.
        self.may_be_shared = True
        #: A connection that an outage has broken is often used after its end only, and then begins no other one.
        self.opened_at = time.monotonic()
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
        if not _under_way.is_set():
            _under_way.set()
        try:
            yield
            _answered_at = time.monotonic()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            if self.closed and is_outage(error) and (OUTAGE.is_on or self.opened_at > OUTAGE.ended_at):
                OUTAGE.met(error)
            raise
        finally:
            self.since = 0.0

    def hang_up(self) -> None:
        """End the connection: the operation that waits for it, or the next one, raises OperationalError."""
        if self._close_line.alive:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._line)) as line:
                line.shutdown(socket.SHUT_RDWR)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own. If not, the next statement begins a transaction."""
        return not self._begins

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        # psycopg2 would send the BEGIN as a message of its own, and wait for the answer.
        _AUTOCOMMIT.__set__(self, True)  # raises InterfaceError where the connection is closed
        self._begins = not value

    def with_begin(self, query: Any) -> Any:
        """The text of a statement, with a BEGIN before it where it begins a transaction: one message for both."""
        if not self._is_to_begin():
            return query
        if isinstance(query, Composable):
            return SQL("BEGIN; ") + query
        return b"BEGIN; " + query if isinstance(query, bytes) else f"BEGIN; {query}"

    def begin(self) -> None:
        """Send the BEGIN alone, before what takes no statement beside it: COPY, or a cursor with a name."""
        if self._is_to_begin():
            self._send("BEGIN")

    def _is_to_begin(self) -> bool:
        return self._begins and self.info.transaction_status == TRANSACTION_STATUS_IDLE

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, statement: str) -> None:
        """Raises psycopg2.InterfaceError where the connection is closed; that ends a transaction, too."""
        if self.closed or self.info.transaction_status != TRANSACTION_STATUS_IDLE:
            self._send(statement)

    def _send(self, statement: str) -> None:
        with self.operation(), self.cursor() as cursor:
            psycopg2.extensions.cursor.execute(cursor, statement)

    def close(self) -> None:
        super().close()
        self._close_line()


class WatchedCursor(psycopg2.extensions.cursor):
    """A cursor whose operations are watched."""

    connection: WatchedConnection

    def execute(self, query: Any, *parameters: Any) -> None:
        with self.connection.operation():
            super().execute(query if self.name else self.connection.with_begin(query), *parameters)


def _watched(name: str, *, fetches: bool = False) -> Callable[..., Any]:
    """A method of psycopg2's cursor, as an operation. fetches: it asks the server only for a cursor with a name."""
    method = getattr(psycopg2.extensions.cursor, name)

    @functools.wraps(method)
    def call(self: WatchedCursor, *words: Any, **named: Any) -> Any:
        if fetches and self.name is None:
            return method(self, *words, **named)
        if not fetches:
            self.connection.begin()
        with self.connection.operation():
            return method(self, *words, **named)

    return call


for _name in ("executemany", "callproc", "copy_expert", "copy_from", "copy_to"):
    setattr(WatchedCursor, _name, _watched(_name))
for _name in ("fetchone", "fetchmany", "fetchall"):
    setattr(WatchedCursor, _name, _watched(_name, fetches=True))


def is_outage(error: BaseException) -> bool:
    """Whether this error of psycopg2 says that the server is away, and not that it refuses a statement."""
    code = getattr(error, "pgcode", None)
    # Class 57P: an administrator, a crash, a start. Class 08: the connection.
    return code is None or code.startswith(("57P", "08"))


def reason_of(error: BaseException) -> str:
    """Why the database cannot be used, for logs and health checks: the text of the error may hold a password."""
    if is_full(error):
        return f"{connection_limits.REFUSAL}; {connection_limits.ADVICE}"
    return f"PostgreSQL does not answer ({type(error).__name__})"


def _works(connection: WatchedConnection) -> bool:
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error:
        return False
    return True


SHARED: SharedConnections[WatchedConnection] = SharedConnections(_works)


def connect(
    opening: Callable[[Mapping[str, Any]], WatchedConnection], parameters: Mapping[str, Any]
) -> WatchedConnection:
    """A connection; in processes that serve in bounded time, and at once an error while the server is away.

    parameters: by which libpq reaches the server. opening: is given them, perhaps with the hosts in another order.
    Raises psycopg2.OperationalError; TooManyConnections, which is one, where no thread gives one back in time either.
    """
    global _reached_by
    _reached_by = parameters
    if not outage.is_watching():
        return opening(parameters)
    if (kept := SHARED.take()) is not None:
        return kept
    until = time.monotonic() + lengthened(_timeouts.connect)
    wait = BRIEF_WAIT if open_now() >= FEW else 0.0
    while True:
        if (kept := SHARED.take(wait)) is not None:
            return kept
        if OUTAGE.refuses:
            OUTAGE.refused()
            raise psycopg2.OperationalError("PostgreSQL does not answer")
        made = _open(opening, parameters)
        if made is not None:
            return made
        wait = min(_TURN, until - time.monotonic())
        if wait <= 0:
            raise _in_vain()


def _open(
    opening: Callable[[Mapping[str, Any]], WatchedConnection], parameters: Mapping[str, Any]
) -> WatchedConnection | None:
    """A new connection; None: none is allowed now. Raises psycopg2.OperationalError."""
    if FULL.refuses or not _begin_opening():
        return None
    several = "," in str(parameters.get("host") or "")
    seconds = min(_timeouts.connect, ONE_OF_SEVERAL) if several else _timeouts.connect
    given = {**hosts.beginning_with(parameters, _first), "application_name": application_name()}
    began = time.monotonic()
    try:
        # One that is late is for another thread: on a busy machine it is the next one that would be late, too.
        made = within(seconds, functools.partial(_open_within_bounds, opening, given), release)
    except (psycopg2.OperationalError, TimeoutError) as error:
        if is_full(error):
            FULL.met(error, refuses=True)
            return None
        if isinstance(error, TimeoutError) and _answered_at > began:
            return None
        OUTAGE.met(error, refuses=True)
        raise psycopg2.OperationalError(str(error)) from None
    finally:
        _end_opening()
    if several:
        _begin_with(hosts.number_of(parameters, made))
    return made


def _open_within_bounds(
    opening: Callable[[Mapping[str, Any]], WatchedConnection], given: Mapping[str, Any]
) -> WatchedConnection:
    """Raises psycopg2.OperationalError."""
    made = opening(given)
    try:
        _leave_some(made)
    except psycopg2.Error:
        made.close()
        raise
    return made


def _leave_some(connection: psycopg2.extensions.connection) -> None:
    """Raises TooManyConnections where this one is of those that are left to other processes."""
    if _bounds.leaves:
        connection.autocommit = True
        with connection.cursor() as cursor:
            if connection_limits.read_use(cursor).free < _bounds.leaves:
                raise psycopg2.errors.TooManyConnections(connection_limits.REFUSAL)


def _in_vain() -> psycopg2.OperationalError:
    """The error of a thread that has waited in vain for a connection, with a line of log where none says why."""
    global _said_at
    if FULL.is_on:
        FULL.refused()
        return psycopg2.errors.TooManyConnections(connection_limits.REFUSAL)
    is_full = open_now() >= _bounds.most
    why = f"all {_bounds.most} of this process are in use" if is_full else "a new one takes too long"
    if time.monotonic() > _said_at + _SAY_SECONDS:
        _said_at = time.monotonic()
        log.warning("calls wait in vain for a connection to PostgreSQL: %s", why)
    kind = psycopg2.errors.TooManyConnections if is_full else psycopg2.OperationalError
    return kind(f"no connection to PostgreSQL: {why}")


def _begin_opening() -> bool:
    """Whether this process may have one more.

    Few are opened at a time: after an outage all threads want one, and a server that makes all of them at once makes
    none in time. A process that leaves some to others opens one after the other: it closes what is too many.
    """
    global _opening
    with _lock:
        if _opening >= (1 if _bounds.leaves else OPENED_AT_ONCE):
            return False
        if sum(not one.closed for one in _connections) + _opening >= _bounds.most:
            return False
        _opening += 1
        return True


def _end_opening() -> None:
    global _opening
    with _lock:
        _opening -= 1


def release(connection: WatchedConnection) -> None:
    """The thread has no work for it: another thread may have it, or it is closed."""
    if outage.is_watching() and _may_be_used_again(connection):
        connection.notices.clear()
        SHARED.give_back(connection)
    else:
        connection.close()


def _may_be_used_again(connection: WatchedConnection) -> bool:
    return (
        not connection.closed
        and connection.may_be_shared
        and connection.get_transaction_status() == TRANSACTION_STATUS_IDLE
        and connection.opened_at > time.monotonic() - LONGEST_USE
        and not OUTAGE.is_on
    )


def application_name() -> str:
    """The name of this process in the list of sessions of PostgreSQL; "" if it has none."""
    return f"waybill {_bounds.role} {os.getpid()}" if _bounds.role else "waybill"


def bounds() -> ConnectionBounds:
    """The bounds of this process, as `watch` has set them."""
    return _bounds


def open_now() -> int:
    """The connections of this process."""
    return sum(not one.closed for one in _all())


def _begin_with(number: int) -> None:
    global _first
    _first = number


def _of_a_trial() -> list[hosts.Parameters]:
    """The parameters for each host. libpq must not end a trial, however long it is: its error would be an answer."""
    return hosts.of({**_reached_by, "connect_timeout": int(_timeouts.trial * LONGEST_FACTOR) + 2})


def _find_primary() -> None:
    """New connections begin with the host that accepts writes. Raises psycopg2.Error, TimeoutError: there is none."""
    find = functools.partial(hosts.find_writable, _of_a_trial(), lengthened(_timeouts.trial))
    try:
        _begin_with(within(_timeouts.trial, find))
    except psycopg2.Error as error:
        # Then it answers: the rest is `FULL`.
        if not is_full(error):
            raise


def _find_room() -> None:
    """Raises psycopg2.Error, TimeoutError: no further connection is allowed yet."""
    each = _of_a_trial()
    within(_timeouts.trial, functools.partial(_try_one_more, each[_first % len(each)]))


def _try_one_more(parameters: Mapping[str, Any]) -> None:
    with contextlib.closing(psycopg2.connect(**parameters)) as connection:
        _leave_some(connection)


OUTAGE = Outage("PostgreSQL", _find_primary, "requests get 503, and tasks wait")
FULL = Outage(
    "PostgreSQL",
    _find_room,
    f"requests and tasks wait for a connection of this process, and requests may get 503; {connection_limits.ADVICE}",
    connection_limits.REFUSAL,
)


def watch(timeouts: DatabaseTimeouts, bounds: ConnectionBounds = _bounds) -> None:
    """Watch the connections of this process from now on. Call it after the fork."""
    global _timeouts, _bounds
    _timeouts, _bounds = timeouts, bounds
    outage.watch()
    threading.Thread(target=_look_for_ever, name="database", daemon=True).start()


def _look_for_ever() -> None:
    usual = max(_LOOK, _PART * _timeouts.operation)
    pause = usual
    while True:
        # An operation that begins after this ends the wait below.
        _under_way.clear()
        if not any(one.since for one in _all()):
            _under_way.wait(_REST)
        time.sleep(pause)
        pause = _timeouts.operation if _look_once() else usual
        SHARED.close_idle()


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
