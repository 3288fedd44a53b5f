"""Gunicorn's threaded worker, which waits for slow clients so long and no longer, and can give a connection away.

Streams of events then cost no thread.

An application that finds `waybill.hand_over` in its environment may `announce()` that it will use it, and, once it has
written the first part of its answer, call it with what is to have the connection: that call does not return. The worker
neither closes nor counts the connection any more. Over HTTP/2, where a connection is many requests, there is none.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NoReturn, Protocol

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

from .slow import Deadlines, bound_writing

KEY = "waybill.hand_over"
_GIVEN_AWAY = object()


class Receiver(Protocol):
    def __call__(self, connection: Any, *, chunked: bool) -> None: ...


class HandedOver(BaseException):
    """Leaves the worker's code for requests without the end of the answer."""


class HandOver:
    """Of one request."""

    def __init__(self, request: Any, connection: Any) -> None:
        self._request = request
        self.connection = connection

    def announce(self) -> None:
        """The head of the answer says that no other request will follow."""
        self._request.force_close()

    def __call__(self, receiver: Receiver) -> NoReturn:
        # As gunicorn decides: `Response.is_chunked`.
        receiver(self.connection.sock, chunked=self._request.version > (1, 0))
        raise HandedOver


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`worker_class = "deploy.stack.web.StreamWorker"`."""

    #: Seconds for the head of a request, and for its body where that is short.
    READING = 30.0
    #: Octets a second below which a body is too slow.
    SLOWEST = 50_000
    #: Seconds for which a client may take nothing of its answer.
    WRITING = 30

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._here = threading.local()
        self._deadlines = Deadlines()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        application: Callable[..., Iterable[bytes]] = getattr(self, "wsgi")  # noqa: B009 - of gunicorn, which has no types

        def with_hand_over(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            hand_over: HandOver | None = getattr(self._here, "hand_over", None)
            if hand_over is None:
                return application(environ, start_response)

            def answer(*words: Any) -> Any:
                # Whoever answers has read what he wants to.
                self._deadlines.lift(hand_over.connection)
                return start_response(*words)

            environ[KEY] = hand_over
            return application(environ, answer)

        self.wsgi = with_hand_over

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._here.hand_over = HandOver(req, conn)
        self._deadlines.put(conn, self.READING + _length(req) / self.SLOWEST)
        try:
            return super().handle_request(req, conn)
        except BlockingIOError as error:
            raise ConnectionResetError(errno.ECONNRESET, "it has taken nothing of its answer for too long") from error
        finally:
            self._here.hand_over = None

    def handle(self, conn: Any) -> Any:
        self._deadlines.put(conn, self.READING)
        bound_writing(conn.sock, self.WRITING)
        try:
            return super().handle(conn)
        except HandedOver:
            return _GIVEN_AWAY
        finally:
            self._deadlines.lift(conn)

    def _keepalive_after(self, conn: Any, keepalive: Any) -> bool:
        """What is left of a body that nobody wanted is read here, and its time is looked at between its parts only."""
        self._deadlines.put(conn, self.READING)
        return bool(super()._keepalive_after(conn, keepalive))

    def murder_keepalived(self, force: bool = False) -> None:
        """Each second or so; gunicorn's own word for it."""
        super().murder_keepalived(force)
        self._deadlines.end_overdue()

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        if not fs.cancelled() and fs.exception() is None and fs.result() is _GIVEN_AWAY:
            self.nr_conns -= 1
        else:
            super().finish_request(conn, fs)


def _length(request: Any) -> int:
    """What the head says of the body's length; 0 where it says nothing that is a number."""
    found = next((value for name, value in request.headers if name == "CONTENT-LENGTH"), "0")
    return int(found) if found.isascii() and found.isdigit() and len(found) < 13 else 0
