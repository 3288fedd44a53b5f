"""Gunicorn's threaded worker, changed so that threads do not wait for clients.

Gunicorn gives a connection to a thread as soon as it is readable. A client that sends slowly, stops in a body, or takes
nothing of an answer holds that thread. Here one loop reads requests and sends answers for all clients (`connections`);
a thread has a request from its last octet to the answer. Where there are more than MOST_CONNECTIONS connections, the
address with most of them loses one: the one whose stage has lasted longest.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from typing import Any

from gunicorn.sock import ssl_context  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from endpoints.connect.relay_address import RelayAddress
from identity.networks import network_of

from .client_threads import ClientThreads
from .client_timeouts import ClientTimeouts
from .connections import MAX_BODY, BodyWanted, HttpConnection, Stage
from .early_answer import EarlyAnswer
from .fair_queue import FairQueue
from .tunnels import TunnelForwarder, head_for_relay, is_tunnel

#: Whether the application is called for the second time, now with the body that it asked for.
AGAIN = "waybill.again"
#: The application calls this with the key of the user. Without the call, the owner of a request is its network.
BELONGS_TO = "waybill.belongs_to"
#: Seconds between two checks of the time limits of clients.
_TICK = 1.0
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
#: The same as the application's (`transferapi/rest/health.py`).
HEALTH_PATH = "/healthz"
_ALIVE = EarlyAnswer("200 OK", '{"status": "alive"}\n', "application/json")
_TOO_LONG = EarlyAnswer("413 Content Too Large", f"A body has at most {MAX_BODY} octets.")
_TOO_MUCH = EarlyAnswer("503 Service Unavailable", "Too much is being sent to this service: try again later.")
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class After(Enum):
    """The state of a connection after a thread has handled a request."""

    MORE = auto()
    CLOSE = auto()
    BODY = auto()


def first_to_go(among: Collection[HttpConnection], weight: Callable[[HttpConnection], int]) -> HttpConnection:
    """The oldest connection of the owner that has the largest weight in total."""
    weights: Counter[str] = Counter()
    for conn in among:
        weights[conn.owner] += weight(conn)
    return min(among, key=lambda conn: (-weights[conn.owner], conn.since))


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`worker_class = "deploy.web.worker.StreamWorker"`. All numbers are for one process."""

    #: Seconds for the head of a request, and before the rate of its body, or of its answer, counts.
    READING = 30.0
    #: Octets a second below which a client is too slow.
    SLOWEST = 50_000
    #: Seconds that a new connection has for its head when the worker stops.
    FIRST = 2.0
    MOST_CONNECTIONS = 1000
    #: The most long bodies that are read at a time.
    MOST_BODIES = 100
    #: The most octets of all answers that wait for their clients; of all long bodies in temporary files.
    MOST_UNSENT, MOST_SPOOLED = 64 << 20, 1 << 30

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._here = threading.local()
        #: All connections that are neither closed nor the relay's; those that no thread has, with their awaited events.
        self._all: set[HttpConnection] = set()
        self._waiting: dict[HttpConnection, int] = {}
        #: Requests that no thread has begun to handle.
        threads = self.cfg.threads
        self._requests: FairQueue[HttpConnection] = FairQueue(max(1, threads // 2), max(1, threads * 3 // 4))
        self._timeouts = ClientTimeouts(self.READING, self.SLOWEST, self.cfg.keepalive)
        # Some threads are left for short answers, however many clients take long ones slowly.
        self._waits = ClientThreads(max(1, threads - 2), self._requests, self._submit)
        #: The address of a client, from that of its connection and X-Forwarded-For. `gunicorn_conf` sets this.
        self.client_address: Callable[[str, str], str] = lambda address, forwarded: address
        #: The refusal of a long body by its head (`early_refusal`). `gunicorn_conf` sets this.
        self.refusal_of: Callable[..., EarlyAnswer | None] = lambda *_, **__: None
        #: Makes an early answer one that a page of another site can read. `gunicorn_conf` sets this.
        self.readable: Callable[[EarlyAnswer, Any], EarlyAnswer] = lambda answer, _: answer
        #: Notes an early answer, with gunicorn's request and the client's address. `gunicorn_conf` sets this.
        self.note_early: Callable[[EarlyAnswer, Any, str], None] = lambda *_: None
        #: Gives back what the thread of a request still has. `gunicorn_conf` sets this.
        self.give_back: Callable[[], object] = lambda: None
        #: Ends the answers that have no end, which hold threads, when the worker is to stop. `gunicorn_conf` sets this.
        self.end_streams: Callable[[], object] = lambda: None
        #: Passes on the connections of agents. `gunicorn_conf` sets the address of the relay.
        self.tunnels = TunnelForwarder(RelayAddress("", 0, "/nowhere"))
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
            connection: HttpConnection = self._here.connection
            environ[AGAIN] = connection.wanted
            environ[BELONGS_TO] = connection.belongs_to
            environ["gunicorn.socket"] = connection.socket
            return application(environ, start_response)

        self.wsgi = with_connection

    def _handle_next(self) -> tuple[HttpConnection, After] | None:
        """Handle the next request in turn, which need not be the one that this was submitted for.

        Returns None where each client that waits has as many threads as allowed.
        """
        conn = self._requests.take()
        if conn is None:
            return None
        client = conn.client_network, conn.credential
        try:
            return conn, self.handle(conn)
        except BaseException:
            self.log.exception("A request failed in the web server itself.")
            return conn, After.CLOSE
        finally:
            if self._requests.done(*client):
                self._submit()

    def handle(self, conn: HttpConnection) -> After:
        """Handle a complete request, or its head alone where the body is long."""
        self._here.connection = conn
        try:
            return After.MORE if self.handle_request(conn.request, conn) else After.CLOSE
        except BodyWanted:
            return After.BODY
        except OSError as error:
            self.log.debug("The client is gone: %s", error)
        except StopIteration as error:
            self.log.debug("The answer was cut off: %s", error)
        except Exception as error:
            self.handle_error(conn.request, conn.sock, conn.client, error)
        finally:
            self._here.connection = None
            self.give_back()
        return After.CLOSE

    # ---- in the loop

    def set_accept_enabled(self, enabled: bool) -> None:
        """A worker that stops takes the connections that wait, and closes the socket: later ones are refused.

        An open socket without a worker would keep them until it is closed, and reset them. A server in front passes a
        request whose connection is refused to another web server, but not a POST that it has sent.
        """
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            threading.Thread(target=self.end_streams, name="end of streams", daemon=True).start()
            for listener in list(self.sockets):
                for _ in range(self._most):
                    if not self.accept(listener):
                        break
                listener.close()
            self.sockets: list[Any] = []

    def accept(self, listener: Any) -> bool:
        """Return whether there was a connection."""
        try:
            plain, client = listener.accept()
        except OSError as error:
            if error.errno in _FULL:
                self._make_room()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return False
        if len(self._all) >= self._most:
            self._make_room()
        conn = HttpConnection(plain, client, listener.getsockname(), self.cfg, self._timeouts, self._waits)
        self._all.add(conn)
        self.nr_conns += 1
        self._run(conn, functools.partial(conn.begin_tls, ssl_context(self.cfg)) if self.cfg.is_ssl else None)
        return True

    def enqueue_req(self, conn: HttpConnection) -> None:
        """Queue the request; a thread takes it when its turn has come."""
        conn.client_network = network_of(self.client_address(conn.address, conn.forwarded))
        self._requests.put(conn.client_network, conn.credential, conn)
        self._submit()

    def _submit(self) -> None:
        """Have a thread take a request. Does nothing in a worker that ends."""
        with contextlib.suppress(RuntimeError):
            done: Future[tuple[HttpConnection, After] | None] = self.tpool.submit(self._handle_next)
            done.add_done_callback(lambda future: self.method_queue.defer(self._finish, future))

    def _run(self, conn: HttpConnection, step: Callable[[], None] | None) -> None:
        """Do this step with a connection, then give it to a thread, or wait for its next event, or drop it."""
        try:
            if step is not None:
                step()
        except OSError as error:
            # The disk with the temporary files may be full.
            (self.log.error if error.errno in _DISK else self.log.debug)("A connection is closed: %s", error)
            conn.close()
        except Exception as error:
            self._refuse(conn, error)
        if conn.early is not None:
            self._note_early(conn, *conn.early)
        if conn.stage is Stage.WORKING and (answer := self._early_answer(conn)):
            self._run(conn, functools.partial(conn.answer_early, self.readable(answer, conn.request)))
        elif conn.stage is Stage.WORKING and is_tunnel(conn.request):
            self._give_to_relay(conn)
        elif conn.stage is Stage.WORKING:
            self._forget(conn)
            self.enqueue_req(conn)
        elif conn.stage is Stage.CLOSED:
            self._drop(conn)
        else:
            self._wait(conn)

    def _note_early(self, conn: HttpConnection, answer: EarlyAnswer, request: Any) -> None:
        conn.early = None
        if answer is not _ALIVE:
            self.note_early(answer, request, self.client_address(conn.address, conn.forwarded))

    def _give_to_relay(self, conn: HttpConnection) -> None:
        """An agent's connection belongs to the relay from now on."""
        self._forget(conn)
        self._all.discard(conn)
        self.nr_conns -= 1
        address = self.client_address(conn.address, conn.forwarded)
        self.tunnels.take(conn.socket, head_for_relay(conn.request, address), address)

    def _early_answer(self, conn: HttpConnection) -> EarlyAnswer | None:
        """The answer of a request that needs no thread."""
        if conn.request.path == HEALTH_PATH and conn.request.method == "GET":
            # Threads may all be busy, and yet this process is well: whoever asks must not restart it.
            return _ALIVE
        if not conn.is_unread:
            return None
        refusal = self.refusal_of(conn.request, conn.missing, shows_credential=conn.credential != 0)
        # A view of the API has refused so long a body with its own document.
        return refusal or (_TOO_LONG if conn.missing > MAX_BODY else None)

    def _refuse(self, conn: HttpConnection, error: Exception) -> None:
        """Answer an error of gunicorn's parser."""
        try:
            self.handle_error(None, conn.sock, conn.client, error)
            conn.answered(keep=False)
        except OSError:
            conn.close()

    def _ready(self, conn: HttpConnection, _: object) -> None:
        if conn in self._waiting:
            self._run(conn, conn.step)
            if conn.spooled:
                self._bound_bodies()

    def _bound_bodies(self) -> None:
        """Where there are too many long bodies, or too many octets of them, refuse one of the owner that has most."""
        bodies = {one for one in self._waiting if one.wanted}
        total = sum(one.spooled for one in self._all)
        while bodies and (len(bodies) > self.MOST_BODIES or total > self.MOST_SPOOLED):
            many = len(bodies) > self.MOST_BODIES
            one = first_to_go(bodies, lambda _: 1) if many else first_to_go(bodies, lambda body: body.spooled)
            bodies.discard(one)
            total -= one.spooled
            self._run(one, functools.partial(one.answer_early, self.readable(_TOO_MUCH, one.request)))

    def _wait(self, conn: HttpConnection) -> None:
        known = self._waiting.get(conn)
        if known is None:
            self.poller.register(conn.socket, conn.wants, functools.partial(self._ready, conn))
        elif known != conn.wants:
            self.poller.modify(conn.socket, conn.wants, functools.partial(self._ready, conn))
        self._waiting[conn] = conn.wants

    def _forget(self, conn: HttpConnection) -> None:
        """Stop waiting for this connection."""
        if self._waiting.pop(conn, None) is not None:
            self.poller.unregister(conn.socket)

    def _drop(self, conn: HttpConnection) -> None:
        self._forget(conn)
        conn.close()
        self._all.discard(conn)
        self.nr_conns -= 1

    def _make_room(self) -> None:
        """Drop some connections at once: to drop one for each new connection would cost a look at all each time.

        Requests that the application has accepted go last.
        """
        counts = Counter(conn.crowd for conn in self._all)
        worst = sorted(self._all, key=lambda conn: (conn.wanted, -counts[conn.crowd], conn.since))
        for conn in itertools.islice(filter(self._is_free, worst), 1 + self._most // 20):
            self._drop(conn)

    def _is_free(self, conn: HttpConnection) -> bool:
        """Whether no thread has this connection. A request that waited for a thread leaves the queue."""
        return conn in self._waiting or self._requests.remove(conn.client_network, conn.credential, conn)

    def _finish(self, done: Future[tuple[HttpConnection, After] | None]) -> None:
        # A worker that ends cancels the requests that no thread has begun; its sockets end with it.
        handled = None if done.cancelled() else done.result()
        if handled is None:
            return
        conn, after = handled
        if after is After.BODY:
            self._run(conn, conn.read_body)
            self._bound_bodies()
        else:
            self._run(conn, functools.partial(conn.answered, keep=after is After.MORE))
            self._bound_unsent()

    def _bound_unsent(self) -> None:
        """Where too many octets wait for clients, drop an answer of the owner that has most."""
        sending = {conn for conn in self._waiting if conn.stage is Stage.SENDING}
        total = sum(conn.held for conn in sending)
        while sending and total > self.MOST_UNSENT:
            conn = first_to_go(sending, lambda answer: answer.held)
            sending.discard(conn)
            total -= conn.held
            self._drop(conn)

    def murder_keepalived(self, force: bool = False) -> None:
        """Check the time limits. Gunicorn calls this method after each round of its loop."""
        now = time.monotonic()
        if now < self._next_tick and self.alive:
            return
        self._next_tick = now + _TICK
        for conn in list(self._waiting):
            if force or conn.is_late(now) or not (self.alive or self._is_begun(conn, now)):
                self._drop(conn)

    def _is_begun(self, conn: HttpConnection, now: float) -> bool:
        """Whether a worker that stops waits for this connection: for its request, or for the end of it."""
        new = conn.stage in (Stage.SHAKING, Stage.HEAD) and now - conn.since < self.FIRST
        return new or conn.stage in (Stage.BODY, Stage.SENDING)
