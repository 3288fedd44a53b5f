"""The port at which a server awaits a data connection of this service: by EPSV (RFC 2428), else by PASV (RFC 959)."""

from __future__ import annotations

from endpoints.gridftp.commands import CommandError, parse_extended_port, parse_host_port
from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, classify, make_fault
from endpoints.gridftp.third_party.data_path import refusal


async def passive_port(connection: ControlConnection) -> int:
    """The port. Raises FaultError.

    The connection goes to the host of the control connection, whatever address the server names: a server must not be
    able to make this service connect somewhere else.
    """
    reply = await connection.request("EPSV")
    extended = not reply.is_error
    if reply.code in range(500, 600) and ":" not in connection.peer_host:
        # 500 or 502: it does not know EPSV. Some servers forbid it, and answer as for a file.
        reply = await connection.request("PASV")
    if reply.is_error:
        raise FaultError(classify(reply))
    text = b" ".join(reply.lines)
    try:
        port = parse_extended_port(text) if extended else parse_host_port(text)[1]
    except CommandError as error:
        raise FaultError(make_fault(Kind.ENDPOINT_ERROR, str(error))) from None
    if advice := refusal(((connection.peer_host, port),), connection.peer_host, lambda _: False):
        raise FaultError(Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=advice))
    return port
