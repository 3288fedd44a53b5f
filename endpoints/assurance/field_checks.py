"""The checks of the fields by which an endpoint demands a sign-in."""

from __future__ import annotations

import re

from endpoints.errors import EndpointInvalidError

#: Minutes that may be demanded (a year), and domains.
MAX_MINUTES, MAX_DOMAINS = 366 * 24 * 60, 20
_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")


def minutes(field: str, value: object) -> int | None:
    """Raises EndpointInvalidError."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_MINUTES:
        raise EndpointInvalidError(field, f"Expected a number of minutes from 1 to {MAX_MINUTES}, or null.")
    return value


def domains(field: str, value: object) -> list[str] | None:
    """In lower case, each once; null or empty: none. Raises EndpointInvalidError."""
    if value is None or value == []:
        return None
    if not isinstance(value, list) or len(value) > MAX_DOMAINS:
        raise EndpointInvalidError(field, f"Expected a list of at most {MAX_DOMAINS} domains, or null.")
    if not all(isinstance(name, str) and _DOMAIN.match(name.lower()) for name in value):
        raise EndpointInvalidError(field, "Each of them is a domain such as example.org.")
    return list(dict.fromkeys(name.lower() for name in value))
