"""Connections whose clients have not signed in: where they are too many, the network that has most loses its oldest.

Every pool of strangers of this project is bounded so: of the web server, of the ssh server, of the relay, and of the
GridFTP server. Nobody is refused because others are many: who signs in at once is none of the oldest of a large crowd.
Standard library only: it runs on the machines of users, too.
"""

from __future__ import annotations

import ipaddress
from typing import Generic, TypeVar

K = TypeVar("K")
#: Bits of the networks that count as one: what one person has without effort. Providers assign a /48 of IPv6 to a site
#: (RFC 6177), and a /24 is the smallest network of IPv4 that is announced (BCP 194).
_IPV4, _IPV6 = 24, 48


def network_of_stranger(address: str) -> str:
    """The network of an address, or of a network of IPv6; other text, such as "" for a unix socket, as it is."""
    try:
        found = ipaddress.ip_address(address.partition("/")[0].partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    bits = _IPV4 if isinstance(found, ipaddress.IPv4Address) else _IPV6
    return str(ipaddress.ip_network((int(found), bits) if found.version == 6 else f"{found}/{bits}", strict=False))


class Strangers(Generic[K]):
    """The connections that have not signed in. Not safe for threads.

    most: in all. most_of_network: of one network; None: no bound of its own.
    """

    def __init__(self, most: int, most_of_network: int | None = None) -> None:
        self._most, self._most_of_network = most, most_of_network
        self._network_of: dict[K, str] = {}
        #: By network, the oldest first.
        self._networks: dict[str, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._network_of)

    def __contains__(self, one: object) -> bool:
        return one in self._network_of

    def enter(self, one: K, address: str) -> K | None:
        """Take in a connection from this address. Returns the one that must end for it, which is in no more."""
        network = network_of_stranger(address)
        late = None
        if self._most_of_network is not None and len(self._networks.get(network, ())) >= self._most_of_network:
            late = next(iter(self._networks[network]))
        elif len(self) >= self._most:
            late = self.next_to_go()
        if late is not None:
            self.leave(late)
        self._network_of[one] = network
        self._networks.setdefault(network, {})[one] = None
        return late

    def leave(self, one: K) -> bool:
        """Remove a connection that has signed in, or has ended. Returns whether it was in."""
        network = self._network_of.pop(one, None)
        if network is None:
            return False
        there = self._networks[network]
        del there[one]
        if not there:
            del self._networks[network]
        return True

    def next_to_go(self, address: str | None = None) -> K | None:
        """The oldest of the network that has most; None where nobody is in.

        address: of one who has no place; None where its own network has as many as any other.
        """
        if not self._networks:
            return None
        crowd = max(self._networks.values(), key=len)
        if address is not None and len(crowd) <= len(self._networks.get(network_of_stranger(address), ())):
            return None
        return next(iter(crowd))
