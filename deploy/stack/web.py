"""Gunicorn's threaded worker, which can give a connection away: streams of events then cost no thread.

An application that finds `waybill.hand_over` in its environment may `announce()` that it will use it, and, once it has
written the first part of its answer, call it with what is to have the connection: that call does not return. The worker
neither closes nor counts the connection any more. Over HTTP/2, where a connection is many requests, there is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NoReturn, Protocol

from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

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
        self._connection = connection

    def announce(self) -> None:
        """The head of the answer says that no other request will follow."""
        self._request.force_close()

    def __call__(self, receiver: Receiver) -> NoReturn:
        # As gunicorn decides: `Response.is_chunked`.
        receiver(self._connection.sock, chunked=self._request.version > (1, 0))
        raise HandedOver


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`worker_class = "deploy.stack.web.StreamWorker"`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._here = threading.local()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        application: Callable[..., Iterable[bytes]] = getattr(self, "wsgi")  # noqa: B009 - of gunicorn, which has no types

        def with_hand_over(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if (hand_over := getattr(self._here, "hand_over", None)) is not None:
                environ[KEY] = hand_over
            return application(environ, start_response)

        self.wsgi = with_hand_over

    def handle_request(self, req: Any, conn: Any) -> Any:
        self._here.hand_over = HandOver(req, conn)
        try:
            return super().handle_request(req, conn)
        finally:
            self._here.hand_over = None

    def handle(self, conn: Any) -> Any:
        try:
            return super().handle(conn)
        except HandedOver:
            return _GIVEN_AWAY

    def finish_request(self, conn: Any, fs: Future[Any]) -> None:
        if not fs.cancelled() and fs.exception() is None and fs.result() is _GIVEN_AWAY:
            self.nr_conns -= 1
        else:
            super().finish_request(conn, fs)
