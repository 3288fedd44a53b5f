"""How the destination is asked to listen and the source told where to: PASV and PORT, or their kin. Pure.

EPSV and EPRT (RFC 2428) are for a destination reached by IPv6. SPAS and SPOR (GFD.20) know servers whose data nodes
each have an address of their own; from any other server SPAS has one address, and costs what PASV costs.
"""

from __future__ import annotations

from dataclasses import dataclass

from .commands import CommandError, format_extended, format_host_port, parse_extended_port, parse_host_port
from .replies import Reply

#: Data nodes of one server.
MAX_STRIPES = 256

DataAddress = tuple[str, int]


@dataclass(frozen=True, slots=True)
class DataPath:
    """ipv6_host: the destination's address, when that is an IPv6 one. striped: both sides know SPAS and SPOR.

    striped_source: the source has several data nodes, and lets one of them send after PORT.
    """

    ipv6_host: str = ""
    striped: bool = False
    striped_source: bool = False

    @property
    def listen(self) -> str:
        """The command to the destination."""
        if self.ipv6_host:
            return "EPSV"
        return "SPAS" if self.striped else "PASV"

    def addresses(self, reply: Reply) -> tuple[DataAddress, ...]:
        """Where the destination listens, by its answer; never empty. Raises CommandError."""
        if reply.is_error:
            raise CommandError("the destination does not listen", str(reply).encode())
        if self.ipv6_host:
            return ((self.ipv6_host, parse_extended_port(b" ".join(reply.lines))),)
        if not self.striped:
            return (parse_host_port(b" ".join(reply.lines)),)
        found = tuple(parse_host_port(line) for line in reply.lines[1:-1])
        if not 0 < len(found) <= MAX_STRIPES:
            raise CommandError("not the addresses of stripes", str(reply).encode())
        return found

    def connect(self, addresses: tuple[DataAddress, ...]) -> tuple[str, bytes]:
        """The command to the source, with its argument."""
        if self.ipv6_host:
            return "EPRT", format_extended(*addresses[0])
        verb = "SPOR" if len(addresses) > 1 or (self.striped and self.striped_source) else "PORT"
        return verb, b" ".join(format_host_port(*address) for address in addresses)
