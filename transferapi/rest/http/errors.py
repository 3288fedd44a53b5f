"""Every error of the API (4xx, 5xx) is one document, with a code that a program can act on (Transfer API v0.10).

Views and services raise, `handle` answers. Status, code and message are those of `endpoints.error_meanings`. Errors of
requests, before the domain sees them, are ApiErrors:

ApiError(status, code, message)
    BadRequest            the document or a parameter is wrong; the message names the field
    NotFound              the named thing does not exist, or the user may not see it
    ConsentRequired       the token lacks a scope; the answer names it
    MethodNotAllowed      the resource has other methods; the message names them
    UnsupportedMediaType  the body has another Content-Type than the route reads
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from rest_framework import exceptions
from rest_framework.response import Response

from endpoints import error_meanings
from endpoints.error_meanings import ApiError
from endpoints.errors import EndpointNotFoundError, StepUpRequiredError

log = logging.getLogger(__name__)

#: How a program shows its token (RFC 6750, section 2.1).
TOKEN_HEADER = "the header Authorization: Bearer TOKEN"  # noqa: S105 - no token

#: The oldest clients recognize an error by this header alone.
ERROR_HEADER = "X-Transfer-API-Error"


class BadRequest(ApiError):  # noqa: N818 - named as on the wire
    def __init__(self, message: str, code: str = "ClientError.BadRequest") -> None:
        super().__init__(400, code, message)


class NotFound(ApiError):  # noqa: N818
    def __init__(self, message: str, code: str = "ClientError.NotFound") -> None:
        super().__init__(404, code, message)


class ConsentRequired(ApiError):  # noqa: N818
    """Clients fetch a token for `scope` and try again."""

    def __init__(self, scope: str) -> None:
        super().__init__(403, "ConsentRequired", f"The token does not allow this: it lacks the scope {scope}")
        self.scope = scope


class UnsupportedMediaType(ApiError):  # noqa: N818
    def __init__(self, message: str) -> None:
        super().__init__(415, "ClientError.UnsupportedMediaType", message)


class MethodNotAllowed(ApiError):  # noqa: N818
    """allowed: the methods of the resource."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        names = [name for name in allowed if name not in ("HEAD", "OPTIONS")]
        message = f"{method} is not possible here; this resource has {', '.join(names)}"
        super().__init__(405, "ClientError.MethodNotAllowed", message)


def request_id(request: Any) -> str:
    """A short name for this request, for answers and logs. It is made at the first call."""
    django_request = getattr(request, "_request", request)
    if not hasattr(django_request, "waybill_request_id"):
        django_request.waybill_request_id = secrets.token_urlsafe(7)
    return str(django_request.waybill_request_id)


def set_request_id(request: Any, name: str) -> None:
    """Before the first call of `request_id`: the name that a trusted front server gave this request."""
    request.waybill_request_id = name


def resource(request: Any) -> str:
    """The path below the version, as documents name it, without characters that are invalid in JSON or a log."""
    path = str(request.path).removeprefix("/v0.10")
    return path.encode("utf-8", "backslashreplace").decode()[:2000]


def document(request: Any, code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message, "request_id": request_id(request), "resource": resource(request)}


_STATUS_CODES = {
    400: "ClientError.BadRequest",
    401: "ClientError.AuthenticationFailed",
    403: "PermissionDenied",
    404: "ClientError.NotFound",
    405: "ClientError.MethodNotAllowed",
    406: "ClientError.NotAcceptable",
    413: "ClientError.RequestTooLarge",
    415: "ClientError.UnsupportedMediaType",
    429: "ClientError.TooManyRequests",
}


_ADVICE = {
    406: "Only JSON and XML go out: accept application/json or application/xml",
    415: "Only JSON and XML come in: send a document, with Content-Type: application/json or application/xml",
}

#: Seconds after which a client tries again, where the database was away or the service was busy.
RETRY_AFTER = 5


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler. It answers every exception, and shows no internals of the service."""
    request = context["request"]
    if isinstance(error, exceptions.MethodNotAllowed):
        error = MethodNotAllowed(str(request.method), context["view"].allowed_methods)
    status, headers, body = answer(error, request)
    ours = error if status in (500, 503) else None
    log.log(
        logging.ERROR if ours else logging.INFO,
        "request %s: %s %s: %d %s",
        request_id(request), request.method, quote(resource(request)), status, body["code"],
        exc_info=ours,
    )  # fmt: skip
    return Response(body, status=status, headers=headers)


def answer(error: Exception, request: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers and document. request: anything with a path."""
    status, code, message = meaning(error, request_id(request))
    if isinstance(error, EndpointNotFoundError):
        message += _spelling(str(error.ref), request)
    headers = {ERROR_HEADER: code} | headers_of(error, status)
    body: dict[str, Any] = document(request, code, message)
    if isinstance(error, ConsentRequired):
        body["required_scopes"] = [error.scope]
    if isinstance(error, StepUpRequiredError):
        body["authorization_parameters"] = error.authorization_parameters
        headers["WWW-Authenticate"] = error.challenge
    return status, headers, body


def _spelling(name: str, request: Any) -> str:
    """How to write the name of an endpoint in an address, where it was probably written wrongly; else ""."""
    here = str(request.path)
    if f"/endpoint/{name}" not in here:
        return ""
    if "%23" in name:
        return ". It was encoded twice: write %23 for the # of a name, and not %2523"
    # A client sends nothing of an address from the # on.
    if not here.endswith(f"/endpoint/{name}") or "#" in name or _is_uuid(name):
        return ""
    return f". In an address, write %23 for the # of a name: /endpoint/{quote(name, errors='replace')}%23NAME"


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def headers_of(error: Exception, status: int) -> dict[str, str]:
    """How a client signs in, and when it may try again."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (429, 503):
        headers["Retry-After"] = str(getattr(error, "retry_after", RETRY_AFTER))
    return headers


def meaning(error: Exception, request_name: str) -> tuple[int, str, str]:
    """Status, code and message, as `endpoints.error_meanings.meaning`; and those of errors of the framework."""
    if isinstance(error, exceptions.NotAuthenticated):
        return 401, _STATUS_CODES[401], f"You are not signed in. Send {TOKEN_HEADER}"
    if isinstance(error, exceptions.APIException):
        code = _STATUS_CODES.get(error.status_code, "ClientError")
        return error.status_code, code, _ADVICE.get(error.status_code, str(error.detail))
    return error_meanings.meaning(error, request_name)
