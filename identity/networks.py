"""Addresses in numbers: the network of a client, for counters by origin, and whether a host is this computer."""

from __future__ import annotations

import ipaddress


def numeric(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that this text is; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a connection to this name or address stays on this computer."""
    address = numeric(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def network_of(address: str) -> str:
    """Return an IPv4 address as it is, and an IPv6 address as its /64 network: one client owns a whole /64 (RFC 6177).

    An IPv4-mapped IPv6 address, which a dual-stack socket reports, counts as the IPv4 address: otherwise all IPv4
    clients would share one network. Text that is not an address is returned unchanged.
    """
    known = numeric(address)
    if known is None:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    # The scope id of a link-local address names an interface of this host: leave it out.
    return str(ipaddress.ip_network((int(known), 64), strict=False))
