"""The ASGI application of the events server: `gunicorn --worker-class asgi transferapi.asgi`.

It serves streams of events (`transferapi.rest.push`), which hold no thread, and the paths that watch a program. Views
are synchronous: a few threads call them, and each has one connection to the database while a view runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from transferapi.schema_version import check_or_exit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")

#: Views that run at a time; requests of which the answer has not ended.
THREADS, MOST_REQUESTS = 4, 4000
#: Seconds for the ends of the streams when the server stops, and between two looks at whether it does.
END_SECONDS, LOOK_SECONDS = 1.0, 0.5
STREAM, WATCHED = "/event_stream", ("/healthz", "/readyz", "/metrics")

_Receive = Callable[[], Awaitable[Mapping[str, Any]]]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class EventsApplication(ASGIHandler):
    """Django's handler, with threads of its own for views. Only the bodies of streams are asynchronous."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware()
        self._threads = ThreadPoolExecutor(THREADS, "views")
        self._requests = 0
        #: Whether the server was asked to stop. Gunicorn waits for open answers, and reports its end only after them:
        #: streams have none. `gunicorn_conf` sets this.
        self.is_stopping: Callable[[], bool] = lambda: False

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif not _is_served(scope):
            await _refuse(send, 404)
        elif self._requests >= MOST_REQUESTS:
            await _refuse(send, 503)
        else:
            await self._count(self.handle(scope, receive, send))

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, request)

    def _answer(self, request: HttpRequest) -> HttpResponseBase:
        """Django closes connections in the thread in which a request ends, which for a stream is another one."""
        close_old_connections()
        try:
            return self.get_response(request)
        finally:
            close_old_connections()

    async def _count(self, handled: Awaitable[object]) -> None:
        self._requests += 1
        try:
            await handled
        finally:
            self._requests -= 1

    async def _live(self, receive: _Receive, send: _Send) -> None:
        """The lifespan protocol of ASGI: the streams end when the server is to stop."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        end = asyncio.ensure_future(receive())
        while not (end.done() or self.is_stopping()):
            await asyncio.wait([end], timeout=LOOK_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.to_thread(_end_streams)
        await end
        await send({"type": "lifespan.shutdown.complete"})


def _is_served(scope: dict[str, Any]) -> bool:
    """Whether the path is one of this server. Other methods would have bodies; OPTIONS is a question of browsers."""
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD", "OPTIONS") and (path.endswith(STREAM) or path in WATCHED)


async def _refuse(send: _Send, status: int) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"0"), (b"retry-after", b"5")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body"})


def _end_streams() -> None:
    """End all streams of events. Raises TimeoutError."""
    from transferapi.outages.bounded import within
    from transferapi.rest.push import event_broadcaster

    within(END_SECONDS, event_broadcaster.stop)


django.setup()
application = EventsApplication()
check_or_exit()
