"""The network of a client address, for counters that count requests by origin."""

from __future__ import annotations

import ipaddress


def network_of(address: str) -> str:
    """Return an IPv4 address as it is, and an IPv6 address as its /64 network: one client owns a whole /64 (RFC 6177).

    An IPv4-mapped IPv6 address, which a dual-stack socket reports, counts as the IPv4 address: otherwise all IPv4
    clients would share one network. Text that is not an address is returned unchanged.
    """
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    # The scope id of a link-local address names an interface of this host: leave it out.
    return str(ipaddress.ip_network((int(known), 64), strict=False))
