"""Server-sent events of one task, or of all tasks of the user. An extension of this service; see docs/push.md.

The events server (`transferapi.asgi`) needs no thread for a stream. The web server uses one for each, so it has few.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, cast

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from rest_framework.request import Request

from identity import certificate_subjects
from identity.hidden import Secret
from identity.models import User
from identity.provider import bearer
from identity.provider.bearer import Bearer
from transferapi.rest.http.authentication import Certified, SessionAuthentication
from transferapi.rest.http.base import View
from transferapi.rest.http.content_negotiation import FirstRenderer
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.openapi import description
from transferapi.rest.transfer.task_views import task_id
from transferapi.tasks import queries
from transferapi.tasks.notify import feed
from transferapi.tasks.notify.feed import Cursor, FeedScope
from transferapi.tasks.states import Phase

from . import event_broadcaster
from .documents import EVENT_STREAM
from .event_broadcaster import TooManyStreamsError
from .stream_transport import LoopTransport, ThreadTransport

#: Milliseconds after which a client reconnects.
_HELLO = b": Waybill\nretry: 2000\n\n"


class StreamView(View):
    """Ignores Accept: errors are JSON, and the stream has its own type."""

    content_negotiation_class = FirstRenderer

    def stream(self, request: Request, scope: FeedScope, at: Cursor | None) -> HttpResponseBase:
        """Raises TooManyStreamsError. A page gets 204: its browser reports no error then, and the page polls."""
        if request.method == "HEAD":
            return HttpResponse(content_type="text/event-stream")
        has_loop = isinstance(request._request, ASGIRequest)
        try:
            event_broadcaster.current().check_room(scope.owner_id, in_thread=not has_loop)
        except TooManyStreamsError:
            if isinstance(request.successful_authenticator, SessionAuthentication):
                return HttpResponse(status=204)
            raise
        body = (_LoopBody if has_loop else _ThreadBody)(scope, at, _may_listen(request, self.scope))
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingHttpResponse(body, content_type="text/event-stream", headers=headers)


class TaskEventStream(StreamView):
    @description.streaming("Listen to a task", EVENT_STREAM)
    def get(self, request: Request, task: str) -> HttpResponseBase:
        row = queries.get(self.user, task_id(task))
        scope, at = FeedScope(row.owner_id, row.pk), _cursor(request)
        if at is not None and row.phase == Phase.DONE and _has_all(scope, at):
            # After this status alone a browser does not reconnect.
            return HttpResponse(status=204)
        return self.stream(request, scope, at)


class EventStream(StreamView):
    @description.streaming("Listen to all of your tasks", EVENT_STREAM)
    def get(self, request: Request) -> HttpResponseBase:
        return self.stream(request, FeedScope(self.user.pk), _cursor(request))


def _cursor(request: Request) -> Cursor | None:
    """The position of the client. A browser sends the header, which is newer than the parameter of its URL."""
    text = request.headers.get("Last-Event-ID") or request.query_params.get("last_event_id")
    if not text:
        return None
    at = Cursor.parse(text)
    if at is None:
        raise BadRequest("last_event_id: expected an id of this stream, or 0 for all from the beginning")
    return at


def _has_all(scope: FeedScope, at: Cursor) -> bool:
    with feed.look() as now:
        at, _ = feed.start(scope, at, now)
        lines, _ = feed.replay(scope, at, now)
        return not lines


def _may_listen(request: Request, wanted: str) -> Callable[[], bool]:
    """A function that repeats the checks of the first request: a token may be revoked, and a user disabled."""
    user = cast(User, request.user)
    if isinstance(request.auth, Bearer):
        token = Secret(request.headers.get("Authorization", "").partition(" ")[2].strip())

        def may() -> bool:
            found = bearer.authenticate(token.value)
            return found is not None and found.user.pk == user.pk and found.covers(wanted)

        return may
    if isinstance(request.auth, Certified):
        subject = request.auth.subject
        return lambda: certificate_subjects.user_of(subject) == user
    session: Any = getattr(request, "session", None)
    key = session.session_key if session is not None and SESSION_KEY in session else None

    def signed_in() -> bool:
        found = User.objects.filter(pk=user.pk, is_active=True).first()
        return found is not None and (key is None or _is_of(type(session)(key), found))

    return signed_in


def _is_of(session: Any, user: User) -> bool:
    """Whether the session still belongs to the user: a changed password ends other sessions, whose rows stay."""
    mine = session.get(SESSION_KEY) == str(user.pk)
    return mine and constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


class _Body:
    """The body of the answer, which has a first line. A request that is never read takes no place."""

    def __init__(self, scope: FeedScope, at: Cursor | None, may_listen: Callable[[], bool]) -> None:
        self._open = partial(event_broadcaster.current().open, scope, at, may_listen)
        self._transport: LoopTransport | ThreadTransport | None = None

    def close(self) -> None:
        """The client is gone, or the answer has ended."""
        if self._transport is not None:
            self._transport.close()
            event_broadcaster.current().wake()


class _ThreadBody(_Body):
    """For a web server that uses a thread for each answer."""

    def __iter__(self) -> Iterator[bytes]:
        # The thread keeps the stream, and not the connection of the request.
        close_old_connections()
        yield _HELLO
        self._transport = ThreadTransport()
        self._open(self._transport)
        yield from self._transport


class _LoopBody(_Body):
    """For an ASGI server."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield _HELLO
        self._transport = LoopTransport()
        try:
            self._open(self._transport)
        except TooManyStreamsError:
            # The last place was taken since `check_room`. The client connects again, and gets this error then.
            return
        async for data in self._transport:
            yield data
