"""The commands by which one server listens and the other connects: PASV and PORT, or their variants. Pure.

The destination listens, as MODE E wants it (GFD.20 section 4.1). A destination to which no connection can be made, a
computer behind a NAT, connects instead: the source listens, and only MODE S is possible (GFD.20: in MODE E the sender
connects; the toolkit's server answers 500).

`refusal` is the rule against FTP bounce (RFC 2577 section 3): no server makes another one, or this service, connect to
a host that is not its own or its owner's, nor to a well-known port.

EPSV and EPRT (RFC 2428) are for a listener reached by IPv6. SPAS and SPOR (GFD.20) are for servers with several data
nodes, each with its own address; from any other server SPAS returns one address, and costs as much as PASV.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from endpoints.gridftp.commands import (
    CommandError,
    format_extended,
    format_host_port,
    parse_extended_port,
    parse_host_port,
)
from endpoints.gridftp.faults import Side
from endpoints.gridftp.replies import Reply

#: Maximum of data nodes of one server.
MAX_STRIPES = 256

#: The last well-known port: data connections go to higher ones (RFC 2577 section 3).
LAST_SYSTEM_PORT = 1023

DataAddress = tuple[str, int]
#: In place of an address, where data goes through a relay.
RELAY: DataAddress = ("relay", 0)


class RelayPort(NamedTuple):
    """A port of the relay, from one PASV to the next one. token: by which the agent is joined with it."""

    token: str
    address: DataAddress


class RelayPorts(Protocol):
    """The ports of the relay for one pair. Each PASV takes a new one, so that a late connection meets nobody."""

    @property
    def exhausted(self) -> bool:
        """Whether `take` has found none: the pair must be given up."""

    def take(self) -> RelayPort | None:
        """A port that is open now."""

    def close(self, address: DataAddress) -> None:
        """Nobody may connect there any more: what waits there fails."""

    def end(self) -> None:
        """Close all of them."""


def refusal(addresses: tuple[DataAddress, ...], peer: str, accept: Callable[[DataAddress], bool]) -> str:
    """Why data must not go to these addresses, a sentence for the user; "" when it may.

    peer: the server's address on the control connection, in its usual spelling; "" equals no address.
    accept: whether the server's owner has registered this address of another host, and the gate allows it.
    """
    for host, port in addresses:
        if (host, port) == RELAY:
            continue
        if port <= LAST_SYSTEM_PORT:
            return f"The server named port {port} for its data connections, which must be above {LAST_SYSTEM_PORT}."
        if host != peer and not accept((host, port)):
            return (
                f"The server named {host} for its data connections, which is neither its own address ({peer}) nor that "
                "of a server or a data host of its endpoint. The endpoint's administrator registers it (data_hosts), "
                "or makes the server name its own address (-data-interface)."
            )
    return ""


@dataclass(frozen=True, slots=True)
class DataPath:
    """peer: the listener's address on the control connection. striped: both sides know SPAS and SPOR.

    striped_source: the source has several data nodes, of which only one sends after PORT.
    listener: the side that listens; SOURCE in MODE S only.
    ours: the destination is a server of ours: what it reports is on its disk, whatever happens to it later.
    replaces: the destination knows SITE WAYBILL REPLACE, in place of RNFR and RNTO.
    token: of a relay to which both sides connect (SITE WAYBILL DATA); "": directly.
    entrance: the port of the relay to which the source connects, where it knows no tokens.
    """

    peer: str = ""
    striped: bool = False
    striped_source: bool = False
    listener: Side = Side.DESTINATION
    ours: bool = False
    replaces: bool = False
    token: str = ""
    entrance: DataAddress | None = None

    def at_next(self, entrances: RelayPorts | None) -> DataPath:
        """The path through the next port of the relay, where there are any."""
        found = entrances.take() if entrances else None
        return replace(self, token=found.token, entrance=found.address) if found else self

    @property
    def ipv6(self) -> bool:
        return ":" in self.peer

    @property
    def listen(self) -> tuple[str, bytes]:
        """The command to the listener, with its argument."""
        if self.token:
            return self._by_relay
        if self.ipv6:
            return "EPSV", b""
        return "SPAS" if self.striped else "PASV", b""

    @property
    def _by_relay(self) -> tuple[str, bytes]:
        return "SITE", b"WAYBILL DATA " + self.token.encode()

    def addresses(self, reply: Reply) -> tuple[DataAddress, ...]:
        """The addresses in the listener's answer, at least one. Raises CommandError."""
        if reply.is_error:
            raise CommandError(f"the {self.listener} does not listen", str(reply).encode())
        if self.token:
            return (self.entrance or RELAY,)
        if self.ipv6:
            return ((self.peer, parse_extended_port(b" ".join(reply.lines))),)
        if not self.striped:
            return (parse_host_port(b" ".join(reply.lines)),)
        found = tuple(parse_host_port(line) for line in reply.lines[1:-1])
        if not 0 < len(found) <= MAX_STRIPES:
            raise CommandError("not the addresses of stripes", str(reply).encode())
        return found

    def connect(self, addresses: tuple[DataAddress, ...]) -> tuple[str, bytes]:
        """The command to the server that connects, with its argument."""
        if self.token and not self.entrance:
            return self._by_relay
        if ":" in addresses[0][0]:
            return "EPRT", format_extended(*addresses[0])
        verb = "SPOR" if len(addresses) > 1 or (self.striped and self.striped_source) else "PORT"
        return verb, b" ".join(format_host_port(*address) for address in addresses)
