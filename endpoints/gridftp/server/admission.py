"""The limits of sessions: no client address takes all places of the server."""

from __future__ import annotations

import ipaddress
from collections import Counter

from .limits import ServerLimits

#: Bits of the IPv6 prefix that a provider assigns to one customer (RFC 6177).
_NETWORK = 64


class SessionLimits:
    """Counts sessions by client address. Not safe for threads: its owner has a lock.

    Without a fixed share (`ServerLimits.sessions_per_address`) an address may have as many sessions as places are
    free: one address gets at most half of all, each of k addresses 1/(k + 1), and as much remains for another one.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._sessions = limits.sessions
        self._share = limits.sessions_per_address
        self._held: Counter[str] = Counter()

    def enter(self, address: str) -> str:
        """Take a place for this address; return "", or the reason of the refusal.

        Clients that the program has let in have the address "", and may have all places.
        """
        source = _source(address)
        held, left = self._held.get(source, 0), self._sessions - sum(self._held.values())
        if left <= 0:
            return "Too many sessions"
        if source and (held > left if self._share is None else held >= self._share):
            return f"Too many sessions from your address ({held})"
        self._held[source] += 1
        return ""

    def leave(self, address: str) -> None:
        source = _source(address)
        self._held[source] -= 1
        if not self._held[source]:
            del self._held[source]


def _source(address: str) -> str:
    """The key that counts a client: an IPv4 address, the network of an IPv6 address, or "" without an address.

    An IPv4 address in mapped form, as an IPv6 socket has it, is an IPv4 address.
    """
    if not address:
        return ""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK), strict=False))
