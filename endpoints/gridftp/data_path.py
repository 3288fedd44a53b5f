"""How the destination is asked to listen and the source told where to: PASV and PORT, or their kin. Pure.

`refusal` is the rule against FTP bounce (RFC 2577 section 3): no server makes another one, or this service, connect to
a host that is not its own or its owner's, nor to a well-known port.

EPSV and EPRT (RFC 2428) are for a destination reached by IPv6. SPAS and SPOR (GFD.20) know servers whose data nodes
each have an address of their own; from any other server SPAS has one address, and costs what PASV costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .commands import CommandError, format_extended, format_host_port, parse_extended_port, parse_host_port
from .replies import Reply

#: Data nodes of one server.
MAX_STRIPES = 256

#: Well-known ports end here: data connections go to higher ones (RFC 2577 section 3).
LAST_SYSTEM_PORT = 1023

DataAddress = tuple[str, int]


def refusal(addresses: tuple[DataAddress, ...], peer: str, accept: Callable[[DataAddress], bool]) -> str:
    """Why data must not go to these addresses, a sentence for the user; "" when it may.

    peer: the address of the control connection of the server that named them, in its usual spelling; "" is no address.
    accept: whether an address of another host is one that the server's owner has registered, and that the gate allows.
    """
    for host, port in addresses:
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
    """peer: the address of the destination's control connection. striped: both sides know SPAS and SPOR.

    striped_source: the source has several data nodes, and lets one of them send after PORT.
    """

    peer: str = ""
    striped: bool = False
    striped_source: bool = False

    @property
    def ipv6(self) -> bool:
        return ":" in self.peer

    @property
    def listen(self) -> str:
        """The command to the destination."""
        if self.ipv6:
            return "EPSV"
        return "SPAS" if self.striped else "PASV"

    def addresses(self, reply: Reply) -> tuple[DataAddress, ...]:
        """Where the destination listens, by its answer; never empty. Raises CommandError."""
        if reply.is_error:
            raise CommandError("the destination does not listen", str(reply).encode())
        if self.ipv6:
            return ((self.peer, parse_extended_port(b" ".join(reply.lines))),)
        if not self.striped:
            return (parse_host_port(b" ".join(reply.lines)),)
        found = tuple(parse_host_port(line) for line in reply.lines[1:-1])
        if not 0 < len(found) <= MAX_STRIPES:
            raise CommandError("not the addresses of stripes", str(reply).encode())
        return found

    def connect(self, addresses: tuple[DataAddress, ...]) -> tuple[str, bytes]:
        """The command to the source, with its argument."""
        if self.ipv6:
            return "EPRT", format_extended(*addresses[0])
        verb = "SPOR" if len(addresses) > 1 or (self.striped and self.striped_source) else "PORT"
        return verb, b" ".join(format_host_port(*address) for address in addresses)
