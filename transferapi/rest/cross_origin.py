"""Cross-origin requests (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol): the only place that decides on them.

Pages of registered origins read the answers of the API, errors too. They authenticate by a token that they send
themselves: `Access-Control-Allow-Credentials` is never sent, and cookies of requests from another origin are removed:
no such request acts by the session that the browser has here. Other origins get no header that lets them read.

Registered origins are those of the redirect URIs of registered applications. A process remembers the origins that it
has found: most requests need no query, and a page can read the answer also while the database is away. It remembers
registered origins only: a client that invents origins takes no memory. Lookups count in the rate limit of their
address.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from identity.provider import clients
from identity.provider.applications import origin_of

from .http import rate_limit
from .http.errors import ERROR_HEADER, document
from .http.trusted_proxies import address_of
from .middleware import Middleware

#: The beginnings of the paths of the API. Pages are not among them: only people open those.
_API = ("/v0.10/", "/v2/", "/jobs/", "/.well-known/", "/jwk.json")
_PAGES = ("/v2/oauth2/authorize", "/v2/web/")
#: Seconds that a browser keeps the answer to a preflight; Chromium keeps none for longer.
PREFLIGHT_AGE = 7200
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
#: The headers that the API reads, and those that the JavaScript SDK sends; not X-CSRFToken, which belongs to sessions.
_REQUEST_HEADERS = (
    "Authorization, Content-Type, Accept, Accept-Language, Content-Range, If-Match, If-None-Match, If-Range, "
    "Last-Event-ID, Range, X-Globus-Client-Info, X-Requested-With"
)
#: The headers of answers that a page may read besides the few that it always may.
_ANSWER_HEADERS = (
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After, WWW-Authenticate, X-RateLimit-Limit, "
    f"X-RateLimit-Remaining, {ERROR_HEADER}"
)


class CrossOrigin(Middleware):
    """Middleware, before all that answers or reads cookies."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not is_api(request.path):
            return self._get_response(request)
        origin = request.headers.get("Origin")
        if origin is None or _is_ours(request, origin):
            answer = self._get_response(request)
        else:
            answer = self._foreign(request, origin)
        # Also without an Origin: a cache must not give this answer to a page (Fetch, "CORS protocol and HTTP caches").
        patch_vary_headers(answer, ("Origin",))
        return answer

    def _foreign(self, request: HttpRequest, origin: str) -> HttpResponseBase:
        request.META.pop("HTTP_COOKIE", None)
        allowed = origins.allows(origin, address_of(request))
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            answer: HttpResponseBase = _preflight() if allowed else _unknown(request)
        else:
            answer = self._get_response(request)
        if allowed:
            for name, value in headers_for(origin).items():
                answer.headers[name] = value
        return answer


def headers_for(origin: str) -> dict[str, str]:
    """The headers by which a page of this origin may read an answer."""
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _ANSWER_HEADERS}


def is_api(path: str) -> bool:
    path = "/" + path.lstrip("/")
    return path.startswith(_API) and not path.startswith(_PAGES)


def _is_ours(request: HttpRequest, origin: str) -> bool:
    return origin in (f"{request.scheme}://{request.get_host()}", origin_of(settings.PUBLIC_URL))


def _preflight() -> HttpResponse:
    """Of every route: it costs nothing, and the request itself gets its 404 or 405 in a form that the page can read."""
    return HttpResponse(
        status=204,
        headers={
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _REQUEST_HEADERS,
            "Access-Control-Max-Age": str(PREFLIGHT_AGE),
        },
    )


def _unknown(request: HttpRequest) -> HttpResponse:
    """For the developer of the page, who sees it in the tools of the browser."""
    code = "OriginNotRegistered"
    message = "No application with a redirect URI of this origin is registered here"
    return JsonResponse(document(request, code, message), status=403, headers={ERROR_HEADER: code})


log = logging.getLogger(__name__)

#: Seconds for which a found origin counts without another query: a deleted application's origin ends after them.
FRESH = 30.0
#: Seconds for which it counts while it cannot be looked up.
STALE = 600.0
#: The most origins that one process remembers.
MOST = 1000
MAX_ORIGIN = 300
#: As browsers send it (RFC 6454 section 6.2): lower case, no path. `null`, of pages without an origin, is none.
_ORIGIN = re.compile(r"https?://[a-z0-9.\-_\[\]:]+\Z")


class RegisteredOrigins:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Origin -> the time of the last lookup that found it; the one used last at the end.
        self._found: OrderedDict[str, float] = OrderedDict()

    def allows(self, origin: str, address: str) -> bool:
        """Whether pages of this origin may read answers. address: of the client, which lookups are counted for."""
        if len(origin) > MAX_ORIGIN or not _ORIGIN.match(origin):
            return False
        age = self._age(origin)
        if age <= FRESH:
            return True
        known = self._lookup(origin, address)
        if known is None:
            return age <= STALE
        self._remember(origin, known)
        return known

    def remembers(self, origin: str) -> bool:
        """Whether the origin was allowed of late; without a query."""
        return self._age(origin) <= STALE

    def _lookup(self, origin: str, address: str) -> bool | None:
        """None: the address asks too often, or the database is away."""
        taken = rate_limit.take(None, address)
        if taken and taken.wait:
            return None
        try:
            return clients.has_pages_at(origin)
        except DatabaseError as error:
            log.warning("an origin is not looked up: %s", type(error).__name__)
            return None

    def _age(self, origin: str) -> float:
        """Seconds since the origin was found last; infinite where it was not."""
        with self._lock:
            if origin not in self._found:
                return float("inf")
            self._found.move_to_end(origin)
            return time.monotonic() - self._found[origin]

    def _remember(self, origin: str, known: bool) -> None:
        with self._lock:
            self._found.pop(origin, None)
            if known:
                self._found[origin] = time.monotonic()
            while len(self._found) > MOST:
                self._found.popitem(last=False)


#: Of this process.
origins = RegisteredOrigins()
