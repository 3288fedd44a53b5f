"""Where a request comes from, and whose word about that is believed.

What a client says of itself in headers is believed from servers in front alone. Their addresses (FRONT_SERVERS) make
true what they say of the client's address and of https. What they say of the client's certificate needs FRONT_SECRET
too: a server in front that was told nothing of certificates passes on whatever the client has said of them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

_SECRET = "HTTP_X_WAYBILL_FRONT_SECRET"  # noqa: S105 - the name of a header
#: Of the environment of a request: what no header can be named.
_VOUCHED = "waybill.vouched"
#: As names of headers begin in the environment of a request.
_OF_ADDRESSES = ("HTTP_X_FORWARDED_", "HTTP_FORWARDED", "HTTP_X_REAL_IP")
_OF_CERTIFICATES = ("HTTP_X_SSL_", "HTTP_SSL_")


class FrontServers:
    """The first middleware: nothing after it sees a header that is not to be believed, or the secret."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        meta = request.META
        shown = meta.pop(_SECRET, "")
        is_front = _is_front(meta.get("REMOTE_ADDR", ""))
        meta[_VOUCHED] = is_front and _is_secret(shown)
        if not is_front:
            _drop(meta, _OF_ADDRESSES)
        if not meta[_VOUCHED]:
            _drop(meta, _OF_CERTIFICATES)
        return self._get_response(request)


def vouches_for_certificates(request: HttpRequest) -> bool:
    """Whether a server in front has sent this, and what it says of the client's certificate is true."""
    return request.META.get(_VOUCHED) is True


def address_of(request: HttpRequest) -> str:
    """The client's address; "" where it is not known (a unix socket).

    Of X-Forwarded-For the last address that is not a front server's own: those before it are the client's words.
    """
    address: str = request.META.get("REMOTE_ADDR", "")
    if not _is_front(address):
        return address
    for word in reversed(request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")):
        if not _is_address(word.strip()):
            break
        address = word.strip()
        if not _is_front(address):
            break
    return address


def _is_secret(shown: str) -> bool:
    """Two of them, joined by a comma, are none."""
    return settings.FRONT_SECRET is not None and constant_time_compare(shown, settings.FRONT_SECRET.value)


def _drop(meta: dict[str, Any], beginnings: tuple[str, ...]) -> None:
    for name in [name for name in meta if name.startswith(beginnings)]:
        del meta[name]


def _is_front(address: str) -> bool:
    if not settings.FRONT_SERVERS or not _is_address(address):
        return False
    known = ipaddress.ip_address(address)
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return any(known in network for network in settings.FRONT_SERVERS)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
