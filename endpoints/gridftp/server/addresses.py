"""Commands that say where data flows: PASV, PORT and their kin (RFC 959, RFC 2428, GFD.20 for the striped ones).

Other hosts than the client's own are allowed in PORT: third-party transfers are what this server is for. Ports below
1024 are not, so that nobody is made to talk to the services of others (RFC 2577 section 3).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from endpoints.gridftp.commands import CommandError, format_host_port, parse_host_port

from .channel import Address
from .errors import RefusedError
from .registry import command

if TYPE_CHECKING:
    from .session import Session

_FIRST_PORT = 1024
_DIGITS = re.compile(r"[0-9]{1,5}")
_SIX_NUMBERS = re.compile(rb" *[0-9]{1,3}(?:,[0-9]{1,3}){5} *")


@command("PASV")
def passive(session: Session, _: bytes) -> None:
    address = format_host_port(*_listen_ipv4(session)).decode()
    session.reply(227, f"Entering Passive Mode ({address})")


@command("SPAS")
def striped_passive(session: Session, _: bytes) -> None:
    """One stripe: this server."""
    address = format_host_port(*_listen_ipv4(session)).decode()
    session.say(f"229-Entering Striped Passive Mode.\r\n {address}\r\n229 End\r\n".encode())


@command("EPSV")
def extended_passive(session: Session, argument: bytes) -> None:
    own = b"2" if ":" in session.local_host else b"1"
    if argument.upper() not in (b"", b"ALL", own):
        raise RefusedError(522, f"Network protocol not supported, use ({own.decode()}).")
    if argument.upper() == b"ALL":
        session.reply(200, "EPSV ALL ok.")
        return
    _, port = session.channel.listen(session.local_host)
    session.reply(229, f"Entering Extended Passive Mode (|||{port}|)")


@command("PORT")
def active(session: Session, argument: bytes) -> None:
    session.channel.aim(_checked(*_parse_host_port(argument)))
    session.reply(200, "PORT Command successful.")


@command("SPOR")
def striped_active(session: Session, argument: bytes) -> None:
    """The destination's stripes; this server can send to one."""
    addresses = argument.split()
    if len(addresses) != 1:
        raise RefusedError(501, "SPOR takes one address here.")
    session.channel.aim(_checked(*_parse_host_port(addresses[0])))
    session.reply(200, "SPOR Command successful.")


@command("EPRT")
def extended_active(session: Session, argument: bytes) -> None:
    """`|1|132.235.1.2|6275|` or `|2|1080::8:800:200C:417A|5282|`, with any delimiter."""
    fields = argument.decode("latin-1").split(argument[:1].decode("latin-1")) if argument else []
    try:
        _, protocol, host, port, _ = fields
        address = ipaddress.ip_address(host)
        if protocol != {4: "1", 6: "2"}[address.version] or not _DIGITS.fullmatch(port):
            raise ValueError(protocol)
    except ValueError:
        raise RefusedError(501, "EPRT: not an address.") from None
    session.channel.aim(_checked(str(address), int(port)))
    session.reply(200, "EPRT Command successful.")


def _listen_ipv4(session: Session) -> Address:
    if ":" in session.local_host:
        raise RefusedError(425, "This is an IPv6 connection: use EPSV.")
    return session.channel.listen(session.local_host)


def _parse_host_port(argument: bytes) -> Address:
    try:
        if not _SIX_NUMBERS.fullmatch(argument):
            raise CommandError("not an address", argument)
        return parse_host_port(argument)
    except CommandError:
        raise RefusedError(501, "Not an address: h1,h2,h3,h4,p1,p2 is wanted.") from None


def _checked(host: str, port: int) -> Address:
    address = ipaddress.ip_address(host)
    if not _FIRST_PORT <= port < 65536:
        raise RefusedError(504, f"Data goes to ports from {_FIRST_PORT} on.")
    if address.is_multicast or address.is_unspecified:
        raise RefusedError(504, "Data goes to one host.")
    return host, port
