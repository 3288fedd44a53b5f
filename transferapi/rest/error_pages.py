"""The answers for requests that no view of the API has answered: Django's handlers for 400, 403, 404 and 500."""

from __future__ import annotations

import sys

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse

from .http import xml_documents
from .http.errors import AWAY, BUSY, ERROR_HEADER, RETRY_AFTER, document

_XML = ("application/xml", "text/xml")


def not_found_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for an unknown route (Django's handler404)."""
    return plain(request, 404, "ClientError.NotFound", "There is no such resource in this API")


def forbidden_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer for what Django forbids (handler403)."""
    return plain(request, 403, "PermissionDenied", "You do not have permission for this")


def server_error_page(request: HttpRequest) -> HttpResponse:
    """The answer for an exception outside of DRF (Django's handler500): 503 where PostgreSQL or Redis is away."""
    cause = sys.exc_info()[1]
    if not isinstance(cause, AWAY):
        return plain(request, 500, "InternalError", "The service failed")
    answer = plain(request, 503, "ServiceUnavailable", BUSY)
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
