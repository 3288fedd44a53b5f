"""How this service's own processes reach agents: by a relay process.

Any relay process may be asked: one that does not hold the agent's tunnel names the one that does. Faults: AGENT_AWAY
where the agent is not connected (or no relay runs), AGENT_PAUSED, ENDPOINT_TOO_BUSY at a limit of the relay.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.conf import settings

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.wire.fenced_socket import FencedSocket

from . import relay_address, relay_messages
from .relay_address import RelayAddress

#: Seconds to connect to a relay process, and until it answers: an agent may be far away.
CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 15.0
#: Seconds until the other end of a data channel must be there; the relay has the same limit.
PARTNER_SECONDS = 30.0
#: Seconds for which a data token opens channels, by default.
TOKEN_SECONDS = 900.0
_KINDS = {
    "away": Kind.AGENT_AWAY,
    "paused": Kind.AGENT_PAUSED,
    "busy": Kind.ENDPOINT_TOO_BUSY,
    "no ports": Kind.UNSUPPORTED,
}


class Dialed(NamedTuple):
    """A control channel, whose socket does not block. address: of the agent, as its service sees it; "": not known."""

    sock: FencedSocket
    address: str


async def open_control(endpoint_id: uuid.UUID | str) -> Dialed:
    """A new control connection to the agent's server. Raises FaultError."""
    sock, answer = await _ask({"do": "control", "endpoint": str(endpoint_id)}, ANSWER_SECONDS)
    return Dialed(sock, str(answer.get("address", "")))


async def join_data(token: str) -> FencedSocket:
    """Join a relayed data channel as the service itself; the socket does not block. Raises FaultError."""
    sock, _ = await _ask({"do": "data", "token": token, "party": relay_messages.SERVICE}, PARTNER_SECONDS + 5)
    return sock


async def open_entrance(token: str, hosts: Collection[str]) -> tuple[socket.socket, tuple[str, int]]:
    """A port of the relay whose connections are joined with the channels that the token's agent opens.

    token: of `new_entrance_token`. hosts: the addresses from which connections are accepted. The port is closed with
    the socket. Raises FaultError; of kind UNSUPPORTED where the operator has opened no ports.
    """
    sock, answer = await _ask({"do": "listen", "token": token, "hosts": sorted(hosts)}, ANSWER_SECONDS)
    return sock, (str(answer.get("host", "")), int(answer.get("port", 0)))


def new_entrance_token(endpoint_id: uuid.UUID | str, *, user_id: uuid.UUID | str, seconds: float) -> str:
    """A token by which an agent and a server are joined that connects to a port of the relay."""
    parties = str(endpoint_id), relay_messages.SERVER
    return relay_messages.new_token(parties, user_id, seconds, time.time())


def new_data_token(
    endpoint_ids: Sequence[uuid.UUID | str], *, user_id: uuid.UUID | str, seconds: float = TOKEN_SECONDS
) -> str:
    """A token by which two agents, or an agent and the service, are joined; each may use it for many channels.

    endpoint_ids: one or two, which must differ. user_id: whose share of the relay it uses.
    """
    first, second = [*map(str, endpoint_ids), relay_messages.SERVICE][:2]
    return relay_messages.new_token((first, second), user_id, seconds, time.time())


async def _ask(content: Mapping[str, Any], seconds: float) -> tuple[FencedSocket, dict[str, Any]]:
    """The connection after a successful answer. Raises FaultError."""
    address: RelayAddress = settings.RELAY
    for _ in range(2):
        sock, answer = await ask_at(address, content, seconds)
        if answer.get("ok"):
            return sock, answer
        sock.close()
        if "at" not in answer:
            kind = _KINDS.get(str(answer.get("error")), Kind.INTERNAL_ERROR)
            raise FaultError(make_fault(kind, str(answer.get("reason", ""))))
        address = relay_address.parse(str(answer["at"]))
    raise FaultError(make_fault(Kind.AGENT_AWAY, "the agent moves from relay to relay"))


async def ask_at(
    address: RelayAddress, content: Mapping[str, Any], seconds: float
) -> tuple[FencedSocket, dict[str, Any]]:
    """Send one request to this relay process. Raises FaultError where it does not answer."""
    try:
        sock = await address.connect(CONNECT_SECONDS)
    except OSError as error:
        fault = make_fault(Kind.AGENT_AWAY, f"no relay answers: {type(error).__name__}")
        advice = "The relay of this service is not running, or starts now; computers connect again by themselves."
        raise FaultError(replace(fault, advice=advice)) from None
    try:
        async with asyncio.timeout(seconds):
            return sock, await _exchange(sock, relay_messages.request(content))
    except (OSError, ValueError) as error:
        sock.close()
        raise FaultError(make_fault(Kind.AGENT_AWAY, f"the relay gave no answer: {type(error).__name__}")) from None
    except BaseException:
        sock.close()
        raise


async def _exchange(sock: socket.socket, line: bytes) -> dict[str, Any]:
    """Send one line to the relay, and read its answer. Raises OSError, ValueError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, line)
    length = int.from_bytes(await _exactly(sock, 2), "big")
    if length > relay_messages.MAX_ANSWER:
        raise ValueError("a long answer")
    found = json.loads(await _exactly(sock, length))
    if not isinstance(found, dict):
        raise ValueError("not an answer")
    return found


async def _exactly(sock: socket.socket, count: int) -> bytes:
    """So many octets and not one more: what follows is not ours. Raises OSError."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        more = await loop.sock_recv(sock, count - len(data))
        if not more:
            raise ConnectionResetError("the relay has closed the connection")
        data += more
    return data
