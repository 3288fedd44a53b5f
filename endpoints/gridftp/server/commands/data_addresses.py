"""Commands with data addresses: PASV, PORT and their variants (RFC 959, RFC 2428, GFD.20 for the striped ones).

PORT may name other hosts than the client's own: third-party transfers need it. Ports below 1024 are refused, so that
this server is never made to talk to other services (RFC 2577 section 3).
"""

from __future__ import annotations

import contextlib
import ipaddress
import re

from endpoints.gridftp.commands import CommandError, format_host_port, parse_host_port
from endpoints.gridftp.server.data.connector import Address
from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.session import ServerSession

from .table import command, waybill

_FIRST_PORT = 1024
_DIGITS = re.compile(r"[0-9]{1,5}")
_TOKEN = re.compile(rb"[A-Za-z0-9_.~=-]{1,256}")
_SIX_NUMBERS = re.compile(rb" *[0-9]{1,3}(?:,[0-9]{1,3}){5} *")


@command("PASV")
def passive(session: ServerSession, _: bytes) -> None:
    session.reply(227, f"Entering Passive Mode ({_listen_ipv4(session)})")


@command("SPAS", feature="SPAS")
def striped_passive(session: ServerSession, _: bytes) -> None:
    """Listen, and answer with one address: this server has one data node."""
    session.say(f"229-Entering Striped Passive Mode.\r\n {_listen_ipv4(session)}\r\n229 End\r\n".encode())


@command("EPSV", feature="EPSV")
def extended_passive(session: ServerSession, argument: bytes) -> None:
    _require_own_host(session)
    own = b"2" if ":" in session.local_host else b"1"
    if argument.upper() not in (b"", b"ALL", own):
        raise CommandRefusedError(522, f"Network protocol not supported, use ({own.decode()}).")
    if argument.upper() == b"ALL":
        session.reply(200, "EPSV ALL ok.")
        return
    _, port = session.channel.listen(session.local_host)
    session.reply(229, f"Entering Extended Passive Mode (|||{port}|)")


@command("PORT")
def active(session: ServerSession, argument: bytes) -> None:
    session.channel.set_target(_checked(*_parse_host_port(argument)))
    session.reply(200, "PORT Command successful.")


def connect_ahead(session: ServerSession, line: bytes) -> None:
    """Begin the connection of a PORT or EPRT that the session will execute later (OPTS PORT Ahead).

    Called in the loop. An address that the command would refuse is passed over.
    """
    verb, _, argument = line.partition(b" ")
    parse = {b"PORT": _parse_host_port, b"EPRT": _parse_extended}.get(verb.upper())
    if parse and session.connects_ahead and session.logged_in and not session.blocks:
        with contextlib.suppress(CommandRefusedError, OSError):
            session.channel.early.begin(_checked(*parse(argument)))


@command("SPOR")
def striped_active(session: ServerSession, argument: bytes) -> None:
    """Take the address of a data node of the destination; this server can send to one."""
    addresses = argument.split()
    if len(addresses) != 1:
        raise CommandRefusedError(501, "SPOR takes one address here.")
    session.channel.set_target(_checked(*_parse_host_port(addresses[0])))
    session.reply(200, "SPOR Command successful.")


@command("EPRT", feature="EPRT")
def extended_active(session: ServerSession, argument: bytes) -> None:
    """Take the address to connect to: `|1|132.235.1.2|6275|` or `|2|1080::8:800:200C:417A|5282|`, any delimiter."""
    session.channel.set_target(_checked(*_parse_extended(argument)))
    session.reply(200, "EPRT Command successful.")


@waybill("DATA")
def relayed(session: ServerSession, argument: bytes) -> None:
    """`SITE WAYBILL DATA token ...` in place of PASV or PORT, on both sides: each token is one connection by a relay.

    In MODE E the sender uses all of them; in MODE S one token serves one file.
    """
    tokens = argument.split()
    if session.service.open_relayed is None:
        raise CommandRefusedError(502, "SITE WAYBILL: this server has no relay.")
    if not 0 < len(tokens) <= session.limits.streams or not all(map(_TOKEN.fullmatch, tokens)):
        raise CommandRefusedError(501, "SITE WAYBILL DATA: expected tokens, one for each connection.")
    session.channel.set_tokens([token.decode() for token in tokens])
    session.reply(200, "Data goes through the relay.")


def _require_own_host(session: ServerSession) -> None:
    """Raise CommandRefusedError (425) if no client can connect to this server.

    The cached data connections are closed first, as by a PASV that succeeds: clients drain a lane with PASV.
    """
    if not session.local_host:
        session.channel.close()
        raise CommandRefusedError(425, "Data connections cannot reach this server: use PORT.")


def _listen_ipv4(session: ServerSession) -> str:
    """Listen at a new port; return the address as PASV writes it."""
    _require_own_host(session)
    if ":" in session.local_host:
        raise CommandRefusedError(425, "This is an IPv6 connection: use EPSV.")
    return format_host_port(*session.channel.listen(session.local_host)).decode()


def _parse_host_port(argument: bytes) -> Address:
    try:
        if not _SIX_NUMBERS.fullmatch(argument):
            raise CommandError("not an address", argument)
        return parse_host_port(argument)
    except CommandError:
        raise CommandRefusedError(501, "Not an address: expected h1,h2,h3,h4,p1,p2.") from None


def _parse_extended(argument: bytes) -> Address:
    fields = argument.decode("latin-1").split(argument[:1].decode("latin-1")) if argument else []
    try:
        _, protocol, host, port, _ = fields
        address = ipaddress.ip_address(host)
        if protocol != {4: "1", 6: "2"}[address.version] or not _DIGITS.fullmatch(port):
            raise ValueError(protocol)
    except ValueError:
        raise CommandRefusedError(501, "EPRT: not an address.") from None
    return str(address), int(port)


def _checked(host: str, port: int) -> Address:
    address = ipaddress.ip_address(host)
    if not _FIRST_PORT <= port < 65536:
        raise CommandRefusedError(504, f"Data goes to ports from {_FIRST_PORT} on.")
    if address.is_multicast or address.is_unspecified:
        raise CommandRefusedError(504, "Data goes to one host.")
    return host, port
