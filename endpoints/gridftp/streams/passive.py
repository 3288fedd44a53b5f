"""Data connections to a server that listens: by EPSV (RFC 2428), else by PASV (RFC 959).

Some firewalls and address translators know PASV only, and drop what goes to the port of EPSV; some servers refuse EPSV
in ways of their own. So the first data connection of a session is made before the command that uses it: PASV can still
be tried then. The result is remembered for the server.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

from endpoints.gridftp.commands import CommandError, parse_extended_port, parse_host_port
from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, classify, make_fault
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.streams.tls_streams import ClientDataConnection, TlsClient, connected
from endpoints.gridftp.third_party.data_path import refusal
from endpoints.gridftp.wire.server_memory import ServerMemory
from identity.gsi.printable import error_text

#: Seconds for a connection to a port that EPSV has named, before PASV is tried.
EXTENDED_TIMEOUT = 5.0
#: Whether EPSV leads to a data connection.
_extended: ServerMemory[bool] = ServerMemory()


async def passive_port(connection: ControlConnection) -> int:
    """The port. Raises FaultError.

    The connection goes to the host of the control connection, whatever address the server names: a server must not be
    able to make this service connect somewhere else.
    """
    return (await _listening(connection))[0]


async def data_connection(
    connection: ControlConnection, tls: TlsClient | ssl.SSLContext | None
) -> Callable[[], Awaitable[ClientDataConnection]]:
    """Agree with the server on a data connection in MODE S; the function opens our end of it. Raises FaultError.

    It is to be called when the command is sent that uses the connection: TLS begins then. It raises OSError.
    """
    port, extended = await _listening(connection)
    host, server = connection.peer_host, connection.peer
    if not extended or ":" in host:
        return partial(ClientDataConnection.open, host, port, tls)
    if _extended.get(server):
        return partial(_open_again, server, port, tls)
    try:
        async with asyncio.timeout(EXTENDED_TIMEOUT):
            made = await connected(host, port)
        _extended.note(server, True)
    except (OSError, TimeoutError):
        _extended.note(server, False)
        port, _ = await _listening(connection)
        made = await _by_pasv(host, port)
    return partial(ClientDataConnection.on, *made, tls)


async def _open_again(
    server: tuple[str, int], port: int, tls: TlsClient | ssl.SSLContext | None
) -> ClientDataConnection:
    try:
        return await ClientDataConnection.open(server[0], port, tls)
    except OSError:
        _extended.forget(server)
        raise


async def _by_pasv(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await connected(host, port)
    except (OSError, TimeoutError) as error:
        raw = f"data connection, by EPSV and by PASV: {error_text(error)}"
        raise FaultError(make_fault(Kind.CONNECT_FAILED, raw)) from None


async def _listening(connection: ControlConnection) -> tuple[int, bool]:
    """The port, and whether EPSV has named it. Raises FaultError."""
    only_extended = ":" in connection.peer_host
    extended = only_extended or _extended.get(connection.peer) is not False
    reply = await connection.request("EPSV" if extended else "PASV")
    if extended and not only_extended and _port(reply, extended=True) is None:
        # Whatever it says: 500 and 502 where it does not know EPSV, 522, 425, and texts of its own.
        _extended.note(connection.peer, False)
        extended = False
        reply = await connection.request("PASV")
    if reply.is_error:
        raise FaultError(classify(reply))
    port = _port(reply, extended=extended)
    if port is None:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, f"no data port in a reply: {reply}"))
    if advice := refusal(((connection.peer_host, port),), connection.peer_host, lambda _: False):
        raise FaultError(Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=advice))
    return port, extended


def _port(reply: Reply, *, extended: bool) -> int | None:
    """The port that this reply to EPSV, or to PASV, names."""
    text = b" ".join(reply.lines)
    try:
        return None if reply.is_error else parse_extended_port(text) if extended else parse_host_port(text)[1]
    except CommandError:
        return None
