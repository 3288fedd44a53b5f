"""Addresses that are not ordinary hosts of the Internet: IANA's special-purpose registries as data.

The rows are those of the "IANA IPv4 Special-Purpose Address Registry" and the "IANA IPv6 Special-Purpose Address
Registry" as of 2025-10-09 (RFC 6890, RFC 8190). To update them, compare `REGISTRY` with
https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry. `OTHERS` are blocks
that other RFCs exclude from global unicast. The attributes of Python's `ipaddress` differ between versions, and cover
fewer rows.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressBlock(NamedTuple):
    """kind: a word for the user. reachable: the registry's "Globally Reachable"; "N/A" there is False here."""

    network: Network
    kind: str
    rfc: str
    reachable: bool = False


def _row(network: str, kind: str, rfc: str, *, reachable: bool = False) -> AddressBlock:
    return AddressBlock(ipaddress.ip_network(network), kind, rfc, reachable)


REGISTRY = (
    _row("0.0.0.0/8", "reserved", "RFC 791, 3.2"),
    _row("0.0.0.0/32", "unspecified", "RFC 1122, 3.2.1.3"),
    _row("10.0.0.0/8", "private", "RFC 1918"),
    _row("100.64.0.0/10", "private", "RFC 6598"),
    _row("127.0.0.0/8", "loopback", "RFC 1122, 3.2.1.3"),
    _row("169.254.0.0/16", "link-local", "RFC 3927"),
    _row("172.16.0.0/12", "private", "RFC 1918"),
    _row("192.0.0.0/24", "reserved", "RFC 6890, 2.1"),
    _row("192.0.0.0/29", "translated", "RFC 7335"),
    _row("192.0.0.8/32", "reserved", "RFC 7600"),
    _row("192.0.0.9/32", "anycast", "RFC 7723", reachable=True),
    _row("192.0.0.10/32", "anycast", "RFC 8155", reachable=True),
    _row("192.0.0.170/32", "translated", "RFC 7050, RFC 8880"),
    _row("192.0.0.171/32", "translated", "RFC 7050, RFC 8880"),
    _row("192.0.2.0/24", "documentation", "RFC 5737"),
    _row("192.31.196.0/24", "anycast", "RFC 7535", reachable=True),
    _row("192.52.193.0/24", "anycast", "RFC 7450", reachable=True),
    _row("192.88.99.0/24", "translated", "RFC 7526"),
    _row("192.88.99.2/32", "translated", "RFC 6751"),
    _row("192.168.0.0/16", "private", "RFC 1918"),
    _row("192.175.48.0/24", "anycast", "RFC 7534", reachable=True),
    _row("198.18.0.0/15", "private", "RFC 2544"),
    _row("198.51.100.0/24", "documentation", "RFC 5737"),
    _row("203.0.113.0/24", "documentation", "RFC 5737"),
    _row("240.0.0.0/4", "reserved", "RFC 1112, 4"),
    _row("255.255.255.255/32", "broadcast", "RFC 919, 7"),
    _row("::1/128", "loopback", "RFC 4291"),
    _row("::/128", "unspecified", "RFC 4291"),
    _row("::ffff:0:0/96", "translated", "RFC 4291"),
    # Reachable by the registry, but refused: the prefix embeds any IPv4 address, also a private one.
    _row("64:ff9b::/96", "translated", "RFC 6052"),
    _row("64:ff9b:1::/48", "translated", "RFC 8215"),
    _row("100::/64", "reserved", "RFC 6666"),
    _row("100:0:0:1::/64", "reserved", "RFC 9780"),
    _row("2001::/23", "reserved", "RFC 2928"),
    _row("2001::/32", "translated", "RFC 4380, RFC 8190"),
    _row("2001:1::1/128", "anycast", "RFC 7723", reachable=True),
    _row("2001:1::2/128", "anycast", "RFC 8155", reachable=True),
    _row("2001:1::3/128", "anycast", "RFC 9665", reachable=True),
    _row("2001:2::/48", "private", "RFC 5180"),
    _row("2001:3::/32", "anycast", "RFC 7450", reachable=True),
    _row("2001:4:112::/48", "anycast", "RFC 7535", reachable=True),
    _row("2001:10::/28", "reserved", "RFC 4843"),
    _row("2001:20::/28", "overlay", "RFC 7343", reachable=True),
    _row("2001:30::/28", "overlay", "RFC 9374", reachable=True),
    _row("2001:db8::/32", "documentation", "RFC 3849"),
    _row("2002::/16", "translated", "RFC 3056"),
    _row("2620:4f:8000::/48", "anycast", "RFC 7534", reachable=True),
    _row("3fff::/20", "documentation", "RFC 9637"),
    _row("5f00::/16", "reserved", "RFC 9602"),
    _row("fc00::/7", "private", "RFC 4193, RFC 8190"),
    _row("fe80::/10", "link-local", "RFC 4291"),
)

OTHERS = (
    _row("224.0.0.0/4", "multicast", "RFC 5771"),
    # Global unicast addresses are those of 2000::/3 only (IANA IPv6 Global Unicast Address Assignments).
    _row("::/0", "reserved", "RFC 4291, 2.4"),
    _row("2000::/3", "global", "RFC 4291, 2.4", reachable=True),
    _row("::/96", "translated", "RFC 4291, 2.5.5.1"),
    _row("fec0::/10", "link-local", "RFC 3879"),
    _row("ff00::/8", "multicast", "RFC 4291, 2.7"),
)

#: The narrowest first: a narrower network overrides a wider one.
_NARROWEST_FIRST = sorted((*REGISTRY, *OTHERS), key=lambda row: -row.network.prefixlen)


def forbidden_kind(address: Address) -> str:
    """The kind of an address that is not globally reachable, in one word; "" when it is reachable."""
    row = next((row for row in _NARROWEST_FIRST if address in row.network), None)
    return "" if row is None or row.reachable else row.kind
