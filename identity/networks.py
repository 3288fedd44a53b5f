"""Which addresses are one client's, where requests are counted by where they come from."""

from __future__ import annotations

import ipaddress


def network_of(address: str) -> str:
    """The address; of an IPv6 one its network of 64 bits, for who has one address there has all of them (RFC 6177).

    An IPv4 address that is written as an IPv6 one, as a server that listens on both has them, is an IPv4 address: else
    all of them would be one network. What is no address stays as it is.
    """
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(known, ipaddress.IPv4Address):
        return str(known)
    if known.ipv4_mapped is not None:
        return str(known.ipv4_mapped)
    # Without the interface of a link-local one, which is ours.
    return str(ipaddress.ip_network((int(known), 64), strict=False))
