"""`POST /shell`: the shell's language over https, where port 22 is blocked.

The body is text, each line a command. They run one after the other, as the lines that the ssh server reads from a pipe.
The whole request has bounds: of octets in and out, of lines, and of time. Only a command that waits for a task takes
long. It ends with the status of `wait --timeout`, and its task goes on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from django.db import connection
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints.error_meanings import RequestTooLarge
from identity.models import User
from identity.provider import scopes
from identity.provider.bearer import Bearer
from transferapi.rest.http import parsing, rate_limit
from transferapi.rest.http.base import View
from transferapi.rest.http.content_negotiation import LeanJSONRenderer
from transferapi.rest.http.trusted_proxies import address_of
from transferapi.rest.openapi.types import NUMBER, TEXT, object_of, ref

from . import interpreter
from .context import Signal
from .errors import OK, TIMED_OUT, SessionEndedError, ShellError, UsageError
from .output import encoded
from .words import MAX_LINE

P = ParamSpec("P")
T = TypeVar("T")
EXIT_CODE = "X-Exit-Code"
#: Octets of a body and lines in it; octets of the output, and of errors besides.
MAX_BODY, MAX_LINES = 256 << 10, 100
MAX_OUTPUT, MAX_ERRORS = 1 << 20, 64 << 10
#: Seconds of a request: less than any proxy waits for an answer.
MAX_SECONDS = 25.0
#: Requests that wait for tasks, of all users and of one, in one process of the web server: each holds a thread.
MAX_WAITING, MAX_WAITING_OF_USER = 2, 1

#: Commands that show more than the scope of the request covers: the scope that they need; None: not for applications.
_BEYOND_TRANSFERS = {
    "profile": None,
    "identity-details": scopes.VIEW_IDENTITIES,
    "identity-list": scopes.VIEW_IDENTITIES,
}


class TimeOverError(ShellError):
    """The time of the request is over, or too many requests wait."""

    status = TIMED_OUT


#: The requests that wait for tasks, by user.
_waiting: Counter[UUID] = Counter()
_guard = threading.Lock()


@contextmanager
def _waiting_place(user_id: UUID) -> Iterator[None]:
    """A place for one request that waits. Raises TimeOverError where none is free."""
    with _guard:
        if _waiting.total() >= MAX_WAITING or _waiting[user_id] >= MAX_WAITING_OF_USER:
            raise TimeOverError("Too many requests over https wait for tasks; what this one began goes on")
        _waiting[user_id] += 1
    try:
        yield
    finally:
        with _guard:
            _waiting[user_id] -= 1
            if not _waiting[user_id]:
                del _waiting[user_id]


class HttpsContext:
    """The caller of the commands of one request (`context.Context`). It keeps the output until the request ends.

    It is a context manager: its end gives back the place of a request that waits for tasks.
    """

    interactive = False
    columns = None
    has_input = False
    transport = "https"

    def __init__(self, user: User, seconds: float, token: Bearer | None = None) -> None:
        self.user = user
        self._token = token
        self._end = time.monotonic() + seconds
        #: The texts as they were written, and whether each is an error.
        self.written: list[tuple[bool, str]] = []
        self._octets = {False: 0, True: 0}
        self._place = ExitStack()
        self._waits = False

    def __enter__(self) -> HttpsContext:
        return self

    def __exit__(self, *_: object) -> None:
        self._place.close()

    @property
    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    def allows(self, command: str) -> bool:
        """An application gets nothing here that REST refuses it."""
        if self._token is None or self._token.client_id is None or command not in _BEYOND_TRANSFERS:
            return True
        scope = _BEYOND_TRANSFERS[command]
        return scope is not None and self._token.covers(scope)

    def out(self, text: str) -> None:
        """Raises ShellError when the output is too long."""
        if not self._fits(text, False, MAX_OUTPUT):
            raise ShellError(
                f"The output over https is at most {MAX_OUTPUT} octets: ask for less, or use ssh",
                "ClientError.OutputTooLarge",
            )

    def err(self, text: str) -> None:
        """Errors beyond the bound are left out."""
        self._fits(text, True, MAX_ERRORS)

    def _fits(self, text: str, is_error: bool, most: int) -> bool:
        octets = len(encoded(text))
        if self._octets[is_error] + octets > most:
            return False
        self._octets[is_error] += octets
        self.written.append((is_error, text))
        return True

    def lines(self) -> Iterator[bytes]:
        return iter(())

    def pause(self, seconds: float) -> Signal | None:
        """Raises TimeOverError."""
        if self.seconds_left <= 0:
            raise TimeOverError(f"A request over https takes at most {MAX_SECONDS:.0f} seconds; what it began goes on")
        if not self._waits:
            self._place.enter_context(_waiting_place(self.user.pk))
            self._waits = True
        if not connection.in_atomic_block:
            connection.close()
        time.sleep(max(0.0, min(seconds, self.seconds_left)))
        return None

    def prompt(self, text: str, *, echo: bool = True) -> str:
        raise ShellError("There is no terminal to ask at: connect with ssh -t")


def run(lines: Sequence[str], context: HttpsContext, admit: Callable[[], bool]) -> int:
    """Run the lines; returns the exit status of the last. admit: whether the user may run a further command now."""
    status = OK
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if refusal := _refusal(number, line, context, admit):
            context.err(f"Error: line {number}: {refusal.message}\n")
            return refusal.status
        try:
            status = interpreter.run(line, context)
        except SessionEndedError:
            break
    return status


def _refusal(number: int, line: str, context: HttpsContext, admit: Callable[[], bool]) -> ShellError | None:
    """The reason not to run a line; the lines after it are not run either."""
    if len(line.encode("utf-8", "surrogateescape")) > MAX_LINE:
        return UsageError(f"a line has at most {MAX_LINE} octets")
    if context.seconds_left <= 0:
        return TimeOverError(f"it was not run: a request over https takes at most {MAX_SECONDS:.0f} seconds")
    if number > 1 and not admit():
        return ShellError("it was not run: you ask too often; wait a little", "ClientError.TooManyRequests")
    return None


class AnyTextParser(BaseParser):
    """A body of any media type, as text: `curl --data` calls it a form.

    An octet that is no UTF-8 becomes a surrogate.
    """

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        return parsing.body(stream, parser_context).decode("utf-8", "surrogateescape")


class TextRenderer(BaseRenderer):
    """The output and the errors in the order in which they were written."""

    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return _merged(data.written)


class ResultRenderer(LeanJSONRenderer):
    """`{"output", "error", "exit_code"}`."""

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        if isinstance(data, HttpsContext):
            code = int((renderer_context or {})["response"].headers[EXIT_CODE])
            data = {"output": _stream(data, False), "error": _stream(data, True), "exit_code": code}
        return super().render(data)


def _stream(context: HttpsContext, is_error: bool) -> str:
    return "".join(text for error, text in context.written if error == is_error)


def _merged(written: Sequence[tuple[bool, str]]) -> bytes:
    """Both streams together; an error begins on a line of its own, as after an unfinished progress line."""
    found = b""
    parts = []
    for is_error, text in written:
        gap = b"\n" if is_error and found and not found.endswith(b"\n") else b""
        found = encoded(text)
        parts += [gap, found]
    return b"".join(parts)


_RESULT: Mapping[str, Any] = object_of({"output": TEXT, "error": TEXT, "exit_code": NUMBER})
_EXIT_CODE = OpenApiParameter(EXIT_CODE, int, OpenApiParameter.HEADER, response=[200], description="the exit status")


class ShellView(View):
    """Runs commands as the user of the request. 200 means that they were run: the exit status is in a header."""

    max_body = MAX_BODY
    parser_classes = (AnyTextParser,)
    renderer_classes = (TextRenderer, ResultRenderer)

    @extend_schema(
        summary="Run commands of the shell, one a line",
        parameters=[_EXIT_CODE],
        request={"text/plain": TEXT},
        responses={
            (200, "text/plain"): TEXT,
            (200, "application/json"): _RESULT,
            ("4XX", "application/json"): ref("error"),
            ("5XX", "application/json"): ref("error"),
        },
    )
    def post(self, request: Request) -> Response:
        given: Any = request.data
        lines = _lines(given if isinstance(given, str) else "")
        token = request.auth if isinstance(request.auth, Bearer) else None
        with HttpsContext(self.user, MAX_SECONDS, token) as context:
            status = run(lines, context, self._admit)
        return Response(context, headers={EXIT_CODE: str(status)})

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """A refused request is answered by a document, whatever the client accepts."""
        if getattr(response, "exception", False):
            request.accepted_renderer, request.accepted_media_type = ResultRenderer(), ResultRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    def _admit(self) -> bool:
        """Each line counts as a request; the first one was counted with the request itself."""
        taken = rate_limit.take(self.user.pk, address_of(self.request._request), self.cost)
        return taken is None or not taken.wait


def _lines(text: str) -> list[str]:
    """Raises RequestTooLarge."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise RequestTooLarge(f"A request has at most {MAX_LINES} lines here")
    return [line.removesuffix("\r") for line in lines]
