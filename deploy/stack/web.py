"""Gunicorn's threaded worker, whose threads never wait for a client, and which can give a connection away.

Gunicorn gives a connection to a thread as soon as it is readable: who sends an octet now and then, or stops in a body,
or takes nothing of an answer, holds that thread. Here one loop reads requests and sends answers for all clients
(`connections`); a thread has a request from its last octet to the answer. Where there are more connections than
MOST_CONNECTIONS, one of the address that has most of them is closed: the one that has let us wait longest.

An application that finds `waybill.hand_over` in its environment may `announce()` that it will use it, and, once it has
written the first part of its answer, call it with what is to have the connection: that call does not return. The worker
neither closes nor counts the connection any more. Streams of events then cost no thread.
"""

from __future__ import annotations

import errno
import functools
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from typing import Any, NoReturn, Protocol

from gunicorn.sock import ssl_context  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from .connections import BodyWanted, Connection, Patience, Stage

KEY = "waybill.hand_over"
#: Whether the application is called for the second time, now with the body that it asked for.
AGAIN = "waybill.again"
#: To be called with the key of the user that asks: without it, an owner of requests is a network.
BELONGS_TO = "waybill.belongs_to"
#: Seconds between two looks at the clients' time.
_TICK = 1.0
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class After(Enum):
    """What a thread leaves of a connection."""

    MORE = auto()
    CLOSE = auto()
    BODY = auto()
    GIVEN_AWAY = auto()


class Receiver(Protocol):
    def __call__(self, connection: Any, *, chunked: bool) -> None: ...


class HandedOver(BaseException):
    """Leaves the worker's code for requests without the end of the answer."""


def first_to_go(among: Collection[Connection], weight: Callable[[Connection], int]) -> Connection:
    """Of the owner who has most of them by weight, the one that has let us wait longest."""
    weights: Counter[str] = Counter()
    for conn in among:
        weights[conn.owner] += weight(conn)
    return min(among, key=lambda conn: (-weights[conn.owner], conn.since))


class HandOver:
    """Of one request."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def announce(self) -> None:
        """The head of the answer says that no other request will follow."""
        self.connection.request.force_close()

    def __call__(self, receiver: Receiver) -> NoReturn:
        if self.connection.unsent:
            raise ConnectionResetError(errno.ECONNRESET, "it takes nothing")
        # As gunicorn decides: `Response.is_chunked`.
        receiver(self.connection.socket, chunked=self.connection.request.version > (1, 0))
        raise HandedOver


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`worker_class = "deploy.stack.web.StreamWorker"`. Numbers are for one process."""

    #: Seconds for the head of a request, and before the rate of its body, or of the taking of its answer, counts.
    READING = 30.0
    #: Octets a second below which a client is too slow.
    SLOWEST = 50_000
    MOST_CONNECTIONS = 1000
    #: Long bodies that are read at a time.
    MOST_BODIES = 100
    #: Octets: of all answers that wait for their clients; of all long bodies in temporary files.
    MOST_UNSENT, MOST_SPOOLED = 64 << 20, 1 << 30

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._here = threading.local()
        #: All that are neither closed nor given away; those that no thread has, with what they wait for.
        self._all: set[Connection] = set()
        self._waiting: dict[Connection, int] = {}
        self._patience = Patience(self.READING, self.SLOWEST, self.cfg.keepalive)
        # Some threads are left for those who ask for little, whoever takes long answers slowly.
        self._waits = threading.Semaphore(max(1, self.cfg.threads - 2))
        self._next_tick = 0.0
        self._most = self.MOST_CONNECTIONS

    def init_process(self) -> None:
        """After the fork; runs until the worker ends."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = min(self.MOST_CONNECTIONS, descriptors // 2)
        super().init_process()

    # ---- in the threads

    def load_wsgi(self) -> None:
        super().load_wsgi()
        application: Callable[..., Iterable[bytes]] = getattr(self, "wsgi")  # noqa: B009 - of gunicorn, which has no types

        def with_connection(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            connection: Connection = self._here.connection
            environ[KEY] = HandOver(connection)
            environ[AGAIN] = connection.wanted
            environ[BELONGS_TO] = connection.belongs_to
            environ["gunicorn.socket"] = connection.socket
            return application(environ, start_response)

        self.wsgi = with_connection

    def handle(self, conn: Connection) -> After:
        """A whole request, or its head alone where the body is long."""
        self._here.connection = conn
        try:
            return After.MORE if self.handle_request(conn.request, conn) else After.CLOSE
        except BodyWanted:
            return After.BODY
        except HandedOver:
            return After.GIVEN_AWAY
        except OSError as error:
            self.log.debug("The client is gone: %s", error)
        except StopIteration as error:
            self.log.debug("The answer was cut off: %s", error)
        except Exception as error:
            self.handle_error(conn.request, conn.sock, conn.client, error)
        finally:
            self._here.connection = None
        return After.CLOSE

    # ---- in the loop

    def accept(self, listener: Any) -> None:
        try:
            plain, client = listener.accept()
        except OSError as error:
            if error.errno in _FULL:
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        if len(self._all) >= self._most:
            self._make_room()
        conn = Connection(plain, client, listener.getsockname(), self.cfg, self._patience, self._waits)
        self._all.add(conn)
        self.nr_conns += 1
        self._run(conn, functools.partial(conn.begin_tls, ssl_context(self.cfg)) if self.cfg.is_ssl else None)

    def _run(self, conn: Connection, step: Callable[[], None] | None) -> None:
        """Do this with a connection, then give it to a thread, or wait for what it needs, or forget it."""
        try:
            if step is not None:
                step()
        except OSError as error:
            # The folder of temporary files may be full.
            (self.log.error if error.errno in _DISK else self.log.debug)("A connection is closed: %s", error)
            conn.close()
        except Exception as error:
            self._refuse(conn, error)
        if conn.stage is Stage.WORKING:
            self._forget(conn)
            self.enqueue_req(conn)
        elif conn.stage is Stage.CLOSED:
            self._drop(conn)
        else:
            self._wait(conn)

    def _refuse(self, conn: Connection, error: Exception) -> None:
        """What gunicorn's parser says of the request."""
        try:
            self.handle_error(None, conn.sock, conn.client, error)
            conn.answered(keep=False)
        except OSError:
            conn.close()

    def _ready(self, conn: Connection, _: object) -> None:
        if conn in self._waiting:
            self._run(conn, conn.step)
            if conn.spooled:
                self._bound_bodies()

    def _bound_bodies(self) -> None:
        """Where there are too many, or too much of them, one is refused of the owner who has most."""
        bodies = {one for one in self._waiting if one.wanted}
        total = sum(one.spooled for one in self._all)
        while bodies and (len(bodies) > self.MOST_BODIES or total > self.MOST_SPOOLED):
            many = len(bodies) > self.MOST_BODIES
            one = first_to_go(bodies, lambda _: 1) if many else first_to_go(bodies, lambda body: body.spooled)
            bodies.discard(one)
            total -= one.spooled
            words = ("503 Service Unavailable", "Too much is being sent to this service: try again later.")
            self._run(one, functools.partial(one.refuse, *words))

    def _wait(self, conn: Connection) -> None:
        known = self._waiting.get(conn)
        if known is None:
            self.poller.register(conn.socket, conn.wants, functools.partial(self._ready, conn))
        elif known != conn.wants:
            self.poller.modify(conn.socket, conn.wants, functools.partial(self._ready, conn))
        self._waiting[conn] = conn.wants

    def _forget(self, conn: Connection) -> None:
        """Wait for it no more."""
        if self._waiting.pop(conn, None) is not None:
            self.poller.unregister(conn.socket)

    def _drop(self, conn: Connection) -> None:
        self._forget(conn)
        conn.close()
        self._all.discard(conn)
        self.nr_conns -= 1

    def _make_room(self) -> None:
        """For some at once, or who comes in great numbers would make us look at all each time.

        Requests that the application has accepted go last.
        """
        counts = Counter(conn.network for conn in self._all)
        worst = sorted(self._waiting, key=lambda conn: (conn.wanted, -counts[conn.network], conn.since))
        for conn in worst[: 1 + self._most // 20]:
            self._drop(conn)

    def finish_request(self, conn: Connection, fs: Future[After]) -> None:
        after = fs.result() if not fs.cancelled() and fs.exception() is None else After.CLOSE
        if after is After.GIVEN_AWAY:
            self._all.discard(conn)
            self.nr_conns -= 1
        elif after is After.BODY:
            self._run(conn, conn.read_body)
            self._bound_bodies()
        else:
            self._run(conn, functools.partial(conn.answered, keep=after is After.MORE))
            self._bound_unsent()

    def _bound_unsent(self) -> None:
        """Who has most that its clients do not take loses the rest of an answer."""
        sending = {conn for conn in self._waiting if conn.stage is Stage.SENDING}
        total = sum(conn.held for conn in sending)
        while sending and total > self.MOST_UNSENT:
            conn = first_to_go(sending, lambda answer: answer.held)
            sending.discard(conn)
            total -= conn.held
            self._drop(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """After each round of the loop; gunicorn's own word for it."""
        now = time.monotonic()
        if now < self._next_tick and self.alive:
            return
        self._next_tick = now + _TICK
        for conn in list(self._waiting):
            begun = conn.stage in (Stage.BODY, Stage.SENDING)
            if force or not (self.alive or begun) or conn.is_late(now):
                self._drop(conn)


__all__ = ["AGAIN", "BELONGS_TO", "KEY", "HandOver", "StreamWorker"]
