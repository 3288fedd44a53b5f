"""The client's address, scheme and certificate, as trusted front servers report them.

Headers that a client can set count only where a front server sends them. The address of a front server
(FRONT_SERVERS) is sufficient for the client's address and for https. The client's certificate needs FRONT_SECRET too: a
front server that is not configured for certificates passes on these headers as the client sent them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare

from identity.call_origin import Origin, comes_from
from transferapi.rest.middleware import Middleware

from .errors import set_request_id

#: nginx has 32 hexadecimal digits, HAProxy a UUID.
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}", re.ASCII)
_SECRET = "HTTP_X_WAYBILL_FRONT_SECRET"  # noqa: S105 - the name of a header
#: A key of the environment of a request. No header can have this name.
_VOUCHED = "waybill.vouched"
#: The prefix of headers in the environment of a request.
_OF_ADDRESSES = ("HTTP_X_FORWARDED_", "HTTP_FORWARDED", "HTTP_X_REAL_IP")
_OF_CERTIFICATES = ("HTTP_X_SSL_", "HTTP_SSL_")


class TrustedProxies(Middleware):
    """The first middleware: it removes headers that are not trusted, and the secret, and notes the client's address."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        meta = request.META
        shown = meta.pop(_SECRET, "")
        is_front = _is_front(meta.get("REMOTE_ADDR", ""))
        meta[_VOUCHED] = is_front and _is_secret(shown)
        if not is_front:
            _drop(meta, _OF_ADDRESSES)
        if not meta[_VOUCHED]:
            _drop(meta, _OF_CERTIFICATES)
        if name := request_id_of(meta.get("REMOTE_ADDR", ""), meta.get("HTTP_X_REQUEST_ID", "")):
            set_request_id(request, name)
        with comes_from(Origin(address_of(request))):
            return self._get_response(request)


def vouches_for_certificates(request: HttpRequest) -> bool:
    """Whether a front server has sent this request, so that its headers about the client's certificate are true."""
    return request.META.get(_VOUCHED) is True


def address_of(request: HttpRequest) -> str:
    """The client's address; "" where it is not known (a unix socket)."""
    return client_address(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def client_address(address: str, forwarded: str) -> str:
    """The address of the client of a connection. address: of the other end of the connection; "" for a unix socket.

    forwarded: X-Forwarded-For. Its last address that is not a front server's own counts: the client may have written
    those before it.
    """
    if not _is_front(address):
        return address
    for word in reversed(forwarded.split(",")):
        if not _is_address(word.strip()):
            break
        address = word.strip()
        if not _is_front(address):
            break
    return address


def request_id_of(address: str, header: str) -> str:
    """The id that a front server gave this request (X-Request-Id), so that both logs have the same; "": none.

    address: of the other end of the connection. A header that occurs twice, joined by a comma, is ignored.
    """
    return header if _REQUEST_ID.fullmatch(header) and _is_front(address) else ""


def _is_secret(shown: str) -> bool:
    """A header that occurs twice, joined by a comma, is ignored."""
    return settings.FRONT_SECRET is not None and constant_time_compare(shown, settings.FRONT_SECRET.value)


def _drop(meta: dict[str, Any], beginnings: tuple[str, ...]) -> None:
    for name in [name for name in meta if name.startswith(beginnings)]:
        del meta[name]


def is_in(address: str, networks: Collection[IPv4Network | IPv6Network]) -> bool:
    """Whether it is an address of one of these networks. An IPv4-mapped IPv6 address counts as the IPv4 address."""
    if not networks or not _is_address(address):
        return False
    known = ipaddress.ip_address(address)
    known = getattr(known, "ipv4_mapped", None) or known
    return any(known in network for network in networks)


def _is_front(address: str) -> bool:
    return is_in(address, settings.FRONT_SERVERS)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
