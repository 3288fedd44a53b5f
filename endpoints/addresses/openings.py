"""Networks and ports that the operator opens in the address gate although they are not globally reachable. Pure.

The syntax of WAYBILL_ALLOW_TARGETS and WAYBILL_ALLOW_WEBHOOKS; commas separate the entries:

    10.1.0.0/16                   all ports of all addresses of a network
    127.0.0.1:5061                one port of one address
    10.2.0.0/16:2811-2813         the ports from 2811 to 2813, both included
    fd00::/8, [fd00::/8]:2811     an IPv6 network needs brackets when a port follows
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import NamedTuple

from .special_addresses import Address, Network

MAX_PORT = 65535
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::(.*))?", re.DOTALL)
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class AllowedTarget(NamedTuple):
    """The ports from `first` to `last`, both included, of the addresses of a network."""

    network: Network
    first: int = 1
    last: int = MAX_PORT

    def lets(self, address: Address, port: int) -> bool:
        """Whether it includes this address and port. An IPv4-mapped IPv6 address matches IPv6 networks only."""
        same_family = address.version == self.network.version
        return same_family and address in self.network and self.first <= port <= self.last


def parse_openings(text: str) -> tuple[AllowedTarget, ...]:
    """Parse the syntax above; "" opens nothing. Raises ValueError with a sentence that names the entry."""
    return tuple(_opening(word.strip()) for word in text.split(",") if word.strip())


def opened(address: Address, port: int, openings: Sequence[AllowedTarget]) -> bool:
    """Whether the operator has opened this port of this address."""
    return any(opening.lets(address, port) for opening in openings)


def _opening(word: str) -> AllowedTarget:
    network, ports = _split(word)
    try:
        found = ipaddress.ip_network(network)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None
    return AllowedTarget(found) if ports is None else AllowedTarget(found, *_range(word, ports))


def _split(word: str) -> tuple[str, str | None]:
    """The network and the text of its ports. Without brackets, several colons mean an IPv6 network."""
    if bracketed := _BRACKETED.fullmatch(word):
        return bracketed[1], bracketed[2]
    network, colon, ports = word.partition(":")
    return (network, ports) if colon and ":" not in ports else (word, None)


def _range(word: str, ports: str) -> tuple[int, int]:
    found = _PORTS.fullmatch(ports)
    first = int(found[1]) if found else 0
    last = int(found[2] or first) if found else 0
    if not 1 <= first <= last <= MAX_PORT:
        raise ValueError(f"{word}: expected a port from 1 to 65535 behind it, or a range of them such as 2811-2813")
    return first, last
