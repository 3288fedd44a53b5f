"""Plain forms in, as OAuth2 has them (application/x-www-form-urlencoded), bounded; no cookies, no sessions."""

from __future__ import annotations

from urllib.parse import parse_qsl

from django.http import HttpRequest

from .errors import ApiError

#: A form of OAuth2 is some tokens and some scopes.
MAX_BYTES = 64 * 1024
MAX_FIELDS = 100
_TYPE = "application/x-www-form-urlencoded"


def read(request: HttpRequest) -> list[tuple[str, str]]:
    """The fields, in order; a name may come twice. Raises ApiError (400, 413, 415)."""
    length = int(request.META.get("CONTENT_LENGTH") or 0)
    if length > MAX_BYTES:
        raise ApiError(413, "ClientError.RequestTooLarge", f"A form has at most {MAX_BYTES} octets")
    if length and request.content_type != _TYPE:
        raise ApiError(415, "ClientError.UnsupportedMediaType", f"A form is wanted here, as {_TYPE}")
    try:
        return parse_qsl(
            request.read(MAX_BYTES).decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise ApiError(400, "ClientError.BadRequest", "The form is malformed") from None


def single(form: list[tuple[str, str]]) -> dict[str, str]:
    """By name; of a name that comes twice, the last."""
    return dict(form)
