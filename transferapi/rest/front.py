"""Where a request comes from, and whose word about that is believed: that of servers in WAYBILL_FRONT_SERVERS alone."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def is_from_front(request: HttpRequest) -> bool:
    """Whether a server of ours in front sent this: its headers about the client are true."""
    return _is_front(request.META.get("REMOTE_ADDR", ""))


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
