"""Reads bounded forms of OAuth2 requests (application/x-www-form-urlencoded), without cookies and sessions."""

from __future__ import annotations

from urllib.parse import parse_qsl

from django.http import HttpRequest

from .errors import BadRequest, RequestTooLarge, UnsupportedMediaType

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
