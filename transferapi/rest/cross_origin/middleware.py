"""Cross-origin requests (CORS, https://fetch.spec.whatwg.org/#http-cors-protocol): the only place that decides on them.

Pages of registered origins read the answers of the API, errors too. They authenticate by a token that they send
themselves: `Access-Control-Allow-Credentials` is never sent, and cookies of requests from another origin are removed:
no such request acts by the session that the browser has here. Other origins get no header that lets them read.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from identity.provider.applications import origin_of
from transferapi.rest.http.errors import ERROR_HEADER, document
from transferapi.rest.http.trusted_proxies import address_of
from transferapi.rest.middleware import Middleware

from .registered_origins import origins

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
