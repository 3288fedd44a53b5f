"""Requests to OAuth servers of endpoints, with the errors of `oauth_errors`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.views.decorators.debug import sensitive_variables

from identity.gsi.trust import TrustFolder
from identity.http.https_client import (
    ConnectionFailedError,
    HttpClientError,
    HttpResponse,
    InsecureConnectionError,
    InvalidResponseError,
    NoTlsError,
    ResponseTimeoutError,
    Site,
)
from identity.http.tls_context import client_context
from identity.http.web_address import Url

from .oauth_errors import (
    OAuthError,
    OAuthRefusedError,
    ServerAddressError,
    ServerAnswerError,
    ServerNotTrustedError,
    ServerTooSlowError,
    ServerUnreachableError,
)


def site_of(url: Url, addresses: Sequence[str], trust: TrustFolder, timeout: float) -> Site:
    """Trusts the authorities of the system and those that are trusted for endpoints."""
    return Site(url, addresses, client_context(trust.path), timeout, kind="OAuth server")


@sensitive_variables("headers", "body")
def ask(
    site: Site, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> HttpResponse:
    """`site.ask`, with its errors as those of the OAuth server. Raises OAuthError."""
    try:
        return site.ask(method, target, headers, body)
    except NoTlsError:
        raise ServerNotTrustedError(_NO_TLS) from None
    except InvalidResponseError as error:
        raise ServerAnswerError(error.reason, error.status) from None
    except HttpClientError as error:
        kind = _ERRORS.get(type(error), ServerAddressError)
        raise kind(error.reason) from None


_NO_TLS = "An OAuth server without TLS (http://) is not asked: secrets would be read."
_ERRORS: dict[type[HttpClientError], type[OAuthError]] = {
    ConnectionFailedError: ServerUnreachableError,
    ResponseTimeoutError: ServerTooSlowError,
    InsecureConnectionError: ServerNotTrustedError,
}


def refusal_of(answer: HttpResponse) -> OAuthError:
    """The error for an answer whose status is not 200: of its error document (RFC 6749, 5.2), or of the status."""
    try:
        return OAuthRefusedError(json_object(answer).get("error"))
    except ServerAnswerError:
        return ServerAnswerError(f"The OAuth server answers with status {answer.status}.")


@sensitive_variables("document")
def json_object(answer: HttpResponse) -> dict[str, Any]:
    """The answer as a JSON object. Raises ServerAnswerError."""
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ServerAnswerError("The OAuth server does not answer in JSON.") from None
    if not isinstance(document, dict):
        raise ServerAnswerError("The OAuth server does not answer with an object.")
    return document
