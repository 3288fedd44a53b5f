"""Server-sent events: one task, or all of the user's, as they happen. An extension of ours; see docs/push.md.

A web server that can hand its connection over (`waybill.hand_over` in the environment of the request, see
deploy/stack/web.py) is free of the stream at once. Any other gives it a thread, so there are few of those.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from identity import bearer, certificates
from identity.bearer import Bearer
from identity.hidden import Secret
from identity.models import User
from transferapi.tasks import feed, queries
from transferapi.tasks.feed import Cursor, Scope
from transferapi.tasks.states import Phase

from . import hub, schemas
from .auth import Certified
from .base import View
from .errors import ApiError, BadRequest
from .formats import LeanJSONRenderer
from .hub import TooManyStreamsError
from .outlets import SocketOutlet, ThreadOutlet
from .shapes_push import EVENT_STREAM
from .tasks import task_id

HAND_OVER = "waybill.hand_over"
#: Milliseconds after which a client that lost the connection comes back.
_HELLO = b": Waybill\nretry: 2000\n\n"


class StreamView(View):
    """Whatever the client accepts: errors are JSON, the stream is itself."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        return LeanJSONRenderer(), LeanJSONRenderer.media_type

    def stream(self, request: Request, scope: Scope, at: Cursor | None) -> HttpResponseBase:
        """-> ApiError when there are too many."""
        if request.method == "HEAD":
            return HttpResponse(content_type="text/event-stream")
        try:
            body = _Body(request, scope, at, _may_listen(request, self.scope))
        except TooManyStreamsError as error:
            message = f"There are {error.limit} streams already, which is the most: close one"
            raise ApiError(429, "ClientError.TooManyRequests", message) from None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingHttpResponse(body, content_type="text/event-stream", headers=headers)


class TaskEventStream(StreamView):
    @schemas.streaming("Listen to a task", EVENT_STREAM)
    def get(self, request: Request, task: str) -> HttpResponseBase:
        row = queries.get(self.user, task_id(task))
        scope, at = Scope(row.owner_id, row.pk), _cursor(request)
        if at is not None and row.phase == Phase.DONE and _has_all(scope, at):
            # By this status, and no other, a browser learns that it need not come back.
            return HttpResponse(status=204)
        return self.stream(request, scope, at)


class EventStream(StreamView):
    @schemas.streaming("Listen to all of your tasks", EVENT_STREAM)
    def get(self, request: Request) -> HttpResponseBase:
        return self.stream(request, Scope(self.user.pk), _cursor(request))


def _cursor(request: Request) -> Cursor | None:
    """Where the client was: the header is the browser's, and newer than an address that it was given once."""
    text = request.headers.get("Last-Event-ID") or request.query_params.get("last_event_id")
    if not text:
        return None
    at = Cursor.parse(text)
    if at is None:
        raise BadRequest("last_event_id: an id of this stream is wanted here, or 0 for all from the beginning")
    return at


def _has_all(scope: Scope, at: Cursor) -> bool:
    with feed.look() as now:
        at, _ = feed.start(scope, at, now)
        lines, _ = feed.replay(scope, at, now)
        return not lines


def _may_listen(request: Request, wanted: str) -> Callable[[], bool]:
    """Asks again what was asked when the stream began: a token may be revoked, and a user shut out."""
    user = cast(User, request.user)
    if isinstance(request.auth, Bearer):
        token = Secret(request.headers.get("Authorization", "").partition(" ")[2].strip())

        def may() -> bool:
            found = bearer.authenticate(token.value)
            return found is not None and found.user.pk == user.pk and found.covers(wanted)

        return may
    if isinstance(request.auth, Certified):
        subject = request.auth.subject
        return lambda: certificates.user_of(subject) == user
    session: Any = getattr(request, "session", None)
    key = session.session_key if session is not None and SESSION_KEY in session else None

    def signed_in() -> bool:
        found = User.objects.filter(pk=user.pk, is_active=True).first()
        return found is not None and (key is None or _is_of(type(session)(key), found))

    return signed_in


def _is_of(session: Any, user: User) -> bool:
    """Whether this session is still this user's: with a change of his password others end, whose rows stay."""
    mine = session.get(SESSION_KEY) == str(user.pk)
    return mine and constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


class _Body:
    """What the web server iterates over: it says hello, then is handed over, or goes on in this thread."""

    def __init__(self, request: Request, scope: Scope, at: Cursor | None, may_listen: Callable[[], bool]) -> None:
        """-> TooManyStreamsError"""
        self._open = partial(hub.current().open, scope, at, may_listen)
        self._hand_over: Any = request.META.get(HAND_OVER)
        self._outlet: SocketOutlet | ThreadOutlet | None = None
        self._handed_over = False
        if self._hand_over is None:
            # It begins with the first read: who asks and never reads takes no place.
            hub.current().check_room(scope.owner_id, in_thread=True)
        else:
            self._hand_over.announce()
            self._outlet = SocketOutlet(hub.current().writer)
            self._open(self._outlet)

    def __iter__(self) -> Iterator[bytes]:
        yield _HELLO
        if isinstance(self._outlet, SocketOutlet):
            self._hand_over(self._attach)
        else:
            self._outlet = ThreadOutlet()
            self._open(self._outlet)
            yield from self._outlet

    def _attach(self, connection: socket.socket, *, chunked: bool) -> None:
        """The web server gives the connection away. It does not where the client has not taken what was before."""
        assert isinstance(self._outlet, SocketOutlet)
        self._handed_over = True
        self._outlet.attach(connection, chunked=chunked)

    def close(self) -> None:
        """By the web server, when it has done with it."""
        if self._outlet is not None and not self._handed_over:
            self._outlet.close()
            hub.current().wake()
