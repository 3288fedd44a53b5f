"""The answers for requests that no view of the API has answered: Django's handlers for 400, 403, 404 and 500."""

from __future__ import annotations

import re
import sys
from urllib.parse import quote

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve

from endpoints.error_meanings import AWAY

from .http import xml_documents
from .http.errors import ERROR_HEADER, RETRY_AFTER, document, meaning, request_id

_BASE = "/v0.10"
#: Where routes of the API are; other paths may be pages.
_ROUTES = (f"{_BASE}/", "/v2/", "/jobs")
#: Other versions of the Transfer API, as programs write them.
_VERSION = re.compile(r"\A(/transfer)?(/v[0-9]+(\.[0-9]+)*)?(?=/)")
#: Characters of an address that are compared with routes.
MAX_PATH = 2000
_XML = ("application/xml", "text/xml")


def not_found_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for an unknown route (Django's handler404), with the address that was probably meant."""
    meant = _meant(request.path)
    advice = f"; did you mean {meant}?" if meant else f"; GET {_BASE}/openapi describes all"
    return plain(request, 404, "ClientError.NotFound", f"There is no such resource in this API{advice}")


def _meant(path: str) -> str:
    """A route like this path: without the slash at its end, and with the version of the API; "" where there is none."""
    bare = re.sub("/+", "/", path)[:MAX_PATH].rstrip("/")
    below = _VERSION.sub("", bare)
    for like in (bare, _BASE + bare, _BASE + below):
        if like != path and like.startswith(_ROUTES) and _is_route(like):
            return quote(like, errors="replace")
    return ""


def _is_route(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def forbidden_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for what Django forbids (handler403)."""
    return plain(request, 403, "PermissionDenied", "You do not have permission for this")


def server_error_page(request: HttpRequest) -> HttpResponse:
    """The answer for an exception outside of DRF (Django's handler500): 503 where PostgreSQL or Redis is away."""
    cause = sys.exc_info()[1]
    if not isinstance(cause, AWAY) or not isinstance(cause, Exception):
        return plain(request, 500, "InternalError", "The service failed")
    answer = plain(request, *meaning(cause, request_id(request)))
    answer["Retry-After"] = str(RETRY_AFTER)
    return answer


def bad_request_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for a request that Django refuses, for example a wrong Host header (handler400)."""
    wrong = (
        "The host name is not in WAYBILL_HOSTS" if isinstance(exception, DisallowedHost) else "The request is malformed"
    )
    return plain(request, 400, "ClientError.BadRequest", wrong)


def plain(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    """A document of an error, in JSON or XML."""
    body, headers = document(request, code, message), {ERROR_HEADER: code}
    if "text/html" not in request.headers.get("Accept", "") and (
        request.get_preferred_type(["application/json", *_XML]) in _XML
    ):
        return HttpResponse(
            xml_documents.dumps(body, "error"), status=status, headers=headers, content_type=f"{_XML[0]}; charset=utf-8"
        )
    return JsonResponse(body, status=status, headers=headers)
