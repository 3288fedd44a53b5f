"""How this service is known to the OAuth servers of endpoints.

A server that has registered us with an identifier and a secret stands in WAYBILL_OAUTH_CLIENTS, one a line:

    https://oauth.example.org/oauth2 oa4mp:/client_id/1234 the-secret

To all others we are a public client, whose identifier is the address of this service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from .oauth_errors import ServerAddressError
from .web_address import parse_url


@dataclass(frozen=True, slots=True)
class Client:
    """secret: "" for a public client (RFC 6749, 2.1)."""

    identifier: str
    secret: str = field(default="", repr=False)


def clients_of(text: str) -> Mapping[str, Client]:
    """By the address of the server. Raises ValueError, with the number of the line and nothing else of it."""
    clients: dict[str, Client] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (2, 3):
            raise ValueError(f"line {number} is not: https://server identifier [secret]")
        try:
            clients[str(parse_url(words[0]))] = Client(*words[1:])
        except ServerAddressError as error:
            raise ValueError(f"line {number}: {error.reason}") from None
    return clients


def client_for(server: object) -> Client:
    """As which client the server (or its address) knows us."""
    configured: Mapping[str, Client] = settings.OAUTH_CLIENTS
    return configured.get(str(server), Client(settings.PUBLIC_URL))
