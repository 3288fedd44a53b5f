"""Requests to providers, with the errors of this package. Addresses pass the gate of the caller (`Reach`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.views.decorators.debug import sensitive_variables

from identity.http.https_client import HttpClientError, HttpResponse, InvalidResponseError, Site
from identity.http.web_address import Url, WebAddressError, parse_url

from .errors import ProviderAnswerError, ProviderUnreachableError

#: Gives a site whose addresses have passed the address gate. Raises ProviderUnreachableError where they do not.
Reach = Callable[[Url], Site]
#: Seconds of one request to a provider: a person waits for a page meanwhile.
SECONDS = 10.0


def url_of(text: object, provider: Url) -> Url:
    """An address in a document of a provider; plain http only where the provider itself has it.

    Raises ProviderAnswerError.
    """
    try:
        found = parse_url(text, keep_slash=True) if isinstance(text, str) else None
    except WebAddressError:
        found = None
    if found is None or (found.scheme != "https" and provider.scheme == "https"):
        raise ProviderAnswerError("The provider gives an address that is none, or has no TLS.")
    return found


@sensitive_variables("headers", "body")
def ask(reach: Reach, url: Url, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> HttpResponse:
    """GET, or POST of a body. Raises ProviderUnreachableError, ProviderAnswerError."""
    try:
        return reach(url).ask("GET" if body is None else "POST", url.path or "/", headers, body or b"")
    except InvalidResponseError as error:
        raise ProviderAnswerError(error.reason) from None
    except HttpClientError as error:
        raise ProviderUnreachableError(error.reason) from None


def json_of(answer: HttpResponse) -> Any:
    """Raises ProviderAnswerError."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ProviderAnswerError("The provider does not answer in JSON.") from None


def object_of(answer: HttpResponse) -> dict[str, Any]:
    """The JSON object of an answer with status 200. Raises ProviderAnswerError."""
    if answer.status != 200:
        raise ProviderAnswerError(f"The provider answers with status {answer.status}.")
    document = json_of(answer)
    if not isinstance(document, dict):
        raise ProviderAnswerError("The provider does not answer with an object.")
    return document
