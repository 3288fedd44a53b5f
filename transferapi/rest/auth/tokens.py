"""The OAuth2 token endpoints: issue, revoke, introspect and validate (RFC 6749, 7009, 7662).

Requests are bounded forms (application/x-www-form-urlencoded), read without cookies and sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST
from oauth2_provider.models import Application

from endpoints.error_meanings import ApiError, RequestTooLarge, TooManyRequests
from identity.provider import clients, issue, server
from identity.provider.server import TokenResponse
from transferapi.rest.http import rate_limit
from transferapi.rest.http.errors import BadRequest, UnsupportedMediaType, request_id
from transferapi.rest.http.trusted_proxies import address_of

log = logging.getLogger(__name__)

#: Of a field that occurs twice, the last value counts (`dict`).
Form = list[tuple[str, str]]
#: No cache may keep a document with a token (RFC 6749 section 5.1).
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def _endpoint(answer: Callable[[Form, str], TokenResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A view that reads a form and its client; its errors are OAuth2 error documents."""

    @csrf_exempt  # it looks at no cookie
    @require_POST
    @sensitive_variables()
    @wraps(answer)
    def view(request: HttpRequest) -> HttpResponse:
        headers = dict(_HEADERS)
        try:
            rate_limit.check(rate_limit.take(None, address_of(request)))
            found = answer(read(request), request.headers.get("Authorization", ""))
        except TooManyRequests as error:
            found = TokenResponse(429, {"error": "temporarily_unavailable", "error_description": error.message})
            headers["Retry-After"] = str(error.retry_after)
        except ApiError as error:
            found = TokenResponse(error.status, {"error": "invalid_request", "error_description": error.message})
        if found.status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="Waybill"'
        log.info("request %s: %s: %d %s", request_id(request), request.path, found.status, found.document.get("error"))
        return JsonResponse(_complete(found, request), status=found.status, headers=headers)

    return view


def _complete(found: TokenResponse, request: HttpRequest) -> dict[str, Any]:
    """Errors, also in the form that clients of Globus Auth read."""
    if "error" not in found.document:
        return found.document
    code = str(found.document["error"])
    error = {
        "status": str(found.status),
        "id": request_id(request),
        "code": code.upper(),
        "title": code,
        "detail": str(found.document.get("error_description") or code),
    }
    return {**found.document, "errors": [error]}


def _of_client(answer: Callable[[dict[str, str], Application], TokenResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A view for applications that authenticate with their secret."""

    @sensitive_variables()
    @wraps(answer)
    def check(form: Form, authorization: str) -> TokenResponse:
        fields = dict(form)
        given = clients.credentials(authorization, fields)
        application = clients.authenticate(*given) if given else None
        return _NOT_A_CLIENT if application is None else answer(fields, application)

    return _endpoint(check)


#: The answer to a request without a token.
_NO_TOKEN = TokenResponse(400, {"error": "invalid_request", "error_description": "token: is missing"})
_NOT_A_CLIENT = TokenResponse(401, {"error": "invalid_client"})


@_endpoint
def token(form: Form, authorization: str) -> TokenResponse:
    """POST /v2/oauth2/token"""
    return server.token(form, authorization)


@_endpoint
def revoke(form: Form, authorization: str) -> TokenResponse:
    """POST /v2/oauth2/token/revoke: any holder of a token may revoke it.

    An application that shows its secret may revoke only its own tokens.
    The answer is the same whether there was such a token (RFC 7009 section 2.2).
    """
    fields = dict(form)
    given = clients.credentials(authorization, fields)
    application = clients.authenticate(*given) if given else None
    if given and application is None:
        return _NOT_A_CLIENT
    # A request without a token succeeds: the `globus` command revokes tokens that it does not have.
    issue.revoke(fields.get("token", ""), lambda owner: application is None or owner == application)
    return TokenResponse(200, {"active": False})


@_of_client
def introspect(fields: dict[str, str], application: Application) -> TokenResponse:
    """POST /v2/oauth2/token/introspect"""
    if "token" not in fields:
        return _NO_TOKEN
    include = {word.strip() for word in fields.get("include", "").split(",")}
    return TokenResponse(200, server.describe(fields["token"], application, include))


@_of_client
def validate(fields: dict[str, str], application: Application) -> TokenResponse:
    """POST /v2/oauth2/token/validate: whether a token is still good, a refresh token too."""
    if "token" not in fields:
        return _NO_TOKEN
    return TokenResponse(200, {"active": server.is_active(fields["token"], application)})


#: The longest forms of OAuth2 hold some tokens and scopes.
MAX_BYTES = 64 * 1024
MAX_FIELDS = 100
_TYPE = "application/x-www-form-urlencoded"


def read(request: HttpRequest) -> list[tuple[str, str]]:
    """The fields, in order; a name may occur twice. Raises BadRequest, RequestTooLarge, UnsupportedMediaType."""
    length = int(request.META.get("CONTENT_LENGTH") or 0)
    if length > MAX_BYTES:
        raise RequestTooLarge(f"A form has at most {MAX_BYTES} octets")
    if length and request.content_type != _TYPE:
        raise UnsupportedMediaType(f"Expected a form, as {_TYPE}")
    try:
        return parse_qsl(
            request.read(MAX_BYTES).decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise BadRequest("The form is malformed") from None
