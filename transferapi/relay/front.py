"""The first octets of a connection to a relay process: a WebSocket of an agent, or a request of this service.

Agents come through a front server (nginx, or our web server), which reports their addresses in X-Forwarded-For and lets
through nothing but the path of tunnels.
"""

from __future__ import annotations

import asyncio
from typing import cast

from endpoints.connect.relay_messages import BEGINNING, MAX_REQUEST
from endpoints.gridftp.agent.tunnel import websocket
from endpoints.gridftp.agent.tunnel.agent_end import PATH

from .agent_tunnel import AgentTunnel, DataTunnel
from .dials import Dial
from .relay import Relay

_MAX_HEAD = 16 << 10


class Front(asyncio.Protocol):
    """One connection, until its first line or head is complete."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._received = bytearray()
        #: From `connection_made` on.
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Where too many have sent no complete head, one of them ends: an honest one is done by then."""
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._relay.bounds.sign_in_seconds, self._transport.abort)
        late = self._relay.without_head.enter(self._transport, _peer(self._transport))
        if late is not None:
            late.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def _leave(self) -> None:
        self._timer.cancel()
        self._relay.without_head.leave(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._received.startswith(BEGINNING[: len(self._received)]):
            self._read_request()
        else:
            self._read_head()

    def _read_request(self) -> None:
        line, end, rest = self._received.partition(b"\n")
        if (not end and len(line) > MAX_REQUEST) or rest:
            self._transport.abort()
        elif end:
            self._leave()
            dial = Dial(self._relay, self._transport)
            self._transport.set_protocol(dial)
            dial.begin(bytes(line))

    def _read_head(self) -> None:
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _MAX_HEAD:
                self._transport.abort()
            return
        try:
            found = websocket.parse_head(bytes(head))
        except websocket.WebSocketError:
            self._refuse("400 Bad Request")
            return
        if found.first != f"GET {PATH} HTTP/1.1":
            self._refuse("404 Not Found")
        elif subprotocol := websocket.wanted_subprotocol(found.fields):
            self._admit(found, subprotocol, bytes(rest))
        else:
            self._refuse("426 Upgrade Required", "Upgrade: websocket", "Sec-WebSocket-Version: 13")

    def _admit(self, head: websocket.Head, subprotocol: str, rest: bytes) -> None:
        address = head.fields.get("x-forwarded-for", "").split(",")[-1].strip() or _peer(self._transport)
        self._leave()
        is_data = subprotocol == websocket.DATA_SUBPROTOCOL
        tunnel = (DataTunnel if is_data else AgentTunnel)(self._relay, address)
        late = self._relay.strangers.enter(tunnel, address)
        if late is not None:
            late.abort("others wait for its place")
        self._transport.set_protocol(tunnel)
        self._transport.write(websocket.response(head.fields["sec-websocket-key"], subprotocol))
        tunnel.connection_made(self._transport)
        if isinstance(tunnel, AgentTunnel):
            tunnel.challenge()
        if rest:
            tunnel.data_received(rest)

    def _refuse(self, status: str, *fields: str) -> None:
        lines = (f"HTTP/1.1 {status}", *fields, "Content-Length: 0", "Connection: close", "", "")
        self._transport.write("\r\n".join(lines).encode())
        self._transport.close()


def _peer(transport: asyncio.Transport) -> str:
    """The address of the other end; "" for a unix socket."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""
