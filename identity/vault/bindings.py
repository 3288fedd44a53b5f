"""Bindings: a credential is bound to an endpoint, or to a server that issues credentials for many endpoints.

    endpoint:<uuid> | myproxy:host:port | oauth:https://host[:port]/path

A server has exactly one spelling, so that its credential is found for all endpoints that name the server.
"""

from __future__ import annotations

import re
import uuid

from identity.http.web_address import WebAddressError, parse_url
from identity.vault.errors import VaultError

from .errors import BAD_BINDING

MAX_CHARACTERS = 1024
MYPROXY_PORT = 7512
_FORM = re.compile(r"(endpoint:[0-9a-f-]{36}|myproxy:[^\s/]+:[0-9]{1,5}|oauth:https?://[^\s]+)")


def endpoint_binding(endpoint_id: uuid.UUID | str) -> str:
    """Raises BAD_BINDING when it is not a UUID."""
    try:
        return f"endpoint:{uuid.UUID(str(endpoint_id))}"
    except ValueError:
        raise VaultError(BAD_BINDING) from None


def myproxy_binding(host: str, port: int = MYPROXY_PORT) -> str:
    """The host in lower case; an IPv6 address in brackets. Raises BAD_BINDING."""
    name = host.lower().rstrip(".").strip("[]")
    return checked(f"myproxy:[{name}]:{port}" if ":" in name else f"myproxy:{name}:{port}")


def oauth_binding(url: str) -> str:
    """The URL in the spelling of `web_address`. Raises BAD_BINDING."""
    try:
        return checked(f"oauth:{parse_url(url)}")
    except WebAddressError:
        raise VaultError(BAD_BINDING) from None


def checked(bound_to: str) -> str:
    """Return the text unchanged. Raises BAD_BINDING when it has none of the three forms."""
    if (
        len(bound_to) > MAX_CHARACTERS
        or not (bound_to.isascii() and bound_to.isprintable())
        or not _FORM.fullmatch(bound_to)
    ):
        raise VaultError(BAD_BINDING)
    return bound_to
