"""The client identifiers of this service at the OAuth servers of endpoints.

WAYBILL_OAUTH_CLIENTS holds one line for each server that has registered this service with an identifier and a secret:

    https://oauth.example.org/oauth2 oa4mp:/client_id/1234 the-secret

At other servers this service is a public client, whose identifier is the address of this service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from identity.http.web_address import Url, WebAddressError, parse_url

from .oauth_errors import ServerAddressError


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """secret: "" for a public client (RFC 6749, 2.1)."""

    identifier: str
    secret: str = field(default="", repr=False)


def parse_server(text: str) -> Url:
    """The address of an OAuth server, as owners of endpoints register it. Raises ServerAddressError."""
    try:
        return parse_url(text, server="an OAuth server")
    except WebAddressError as error:
        raise ServerAddressError(reason=error.reason) from None


def clients_of(text: str) -> Mapping[str, OAuthClient]:
    """Our clients by the address of the server. Raises ValueError, with the number of a line but not its text."""
    clients: dict[str, OAuthClient] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (2, 3):
            raise ValueError(f"line {number} is not: https://server identifier [secret]")
        try:
            clients[str(parse_server(words[0]))] = OAuthClient(*words[1:])
        except ServerAddressError as error:
            raise ValueError(f"line {number}: {error.message}") from None
    return clients


def client_for(server: Url | str) -> OAuthClient:
    """The client that we are at this server."""
    configured: Mapping[str, OAuthClient] = settings.OAUTH_CLIENTS
    return configured.get(str(server), OAuthClient(settings.PUBLIC_URL))
