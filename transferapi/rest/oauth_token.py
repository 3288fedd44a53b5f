"""What programs ask the OAuth2 server without a user: tokens, and what becomes of them (RFC 6749, 7009, 7662)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from identity.provider import server
from identity.provider.server import Answer

from . import forms
from .errors import ApiError, request_id

log = logging.getLogger(__name__)

Form = list[tuple[str, str]]
#: A document with a token in it is for nobody's cache (RFC 6749 section 5.1).
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def _endpoint(answer: Callable[[Form, str], Answer]) -> Callable[[HttpRequest], HttpResponse]:
    """A view of a form and of who sends it; what goes wrong is an error document of OAuth2."""

    @csrf_exempt  # it looks at no cookie
    @require_POST
    @sensitive_variables()
    @wraps(answer)
    def view(request: HttpRequest) -> HttpResponse:
        try:
            found = answer(forms.read(request), request.headers.get("Authorization", ""))
        except ApiError as error:
            found = Answer(error.status, {"error": "invalid_request", "error_description": error.message})
        log.info("request %s: %s: %d %s", request_id(request), request.path, found.status, found.document.get("error"))
        return JsonResponse(_complete(found, request), status=found.status, headers=_headers(found))

    return view


def _complete(found: Answer, request: HttpRequest) -> dict[str, Any]:
    """Errors also as the clients of Globus Auth read them."""
    if "error" not in found.document:
        return found.document
    code = str(found.document["error"])
    told = {
        "status": str(found.status),
        "id": request_id(request),
        "code": code.upper(),
        "title": code,
        "detail": str(found.document.get("error_description") or code),
    }
    return {**found.document, "errors": [told]}


def _headers(found: Answer) -> dict[str, str]:
    return {**_HEADERS, "WWW-Authenticate": 'Basic realm="Waybill"'} if found.status == 401 else _HEADERS


@_endpoint
def token(form: Form, authorization: str) -> Answer:
    """POST /v2/oauth2/token"""
    return server.token(form, authorization)
