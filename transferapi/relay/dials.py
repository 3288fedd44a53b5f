"""Connections of this service's own processes: to an agent's control channel, or to one end of a data channel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from django.db import Error as DatabaseError

from endpoints.connect import relay_messages
from endpoints.connect.login import LAST_WORDS
from endpoints.connect.relay_messages import MessageError
from endpoints.gridftp.agent.tunnel.bridge import CONTROL_WINDOW, Bridge, BridgeOpening, ChannelRefusedError
from endpoints.gridftp.agent.tunnel.frames import text_of
from endpoints.gridftp.agent.tunnel.multiplexer import Ended
from transferapi.outages.database import reason_of
from transferapi.tasks.upkeep import tallies

from .agent_tunnel import AgentTunnel
from .entrances import Entrance
from .relay import Relay
from .rendezvous import Offer, OfferRefusedError
from .splice import MeteredBridge

log = logging.getLogger(__name__)

#: Seconds until an agent has accepted a control channel.
OPEN_SECONDS = 10.0


class Dial(asyncio.Protocol):
    """One connection of a worker or of another relay process, until its request is answered."""

    def __init__(self, relay: Relay, transport: asyncio.Transport) -> None:
        self._relay, self._transport = relay, transport
        self._offer: Offer | None = None
        self._entrance: Entrance | None = None

    def begin(self, line: bytes) -> None:
        """line: the request without its end."""
        try:
            request = relay_messages.parse_request(line)
        except MessageError as error:
            log.warning("relay: a connection to an agent was refused: %s", error)
            self._refuse(Ended.FORBIDDEN, str(error))
            return
        self._relay.spawn(self._answer(request))

    def data_received(self, data: bytes) -> None:
        # Nothing may be sent before the answer.
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._offer is not None:
            self._relay.rendezvous.withdraw(self._offer)
        if self._entrance is not None:
            self._entrance.close()

    async def _answer(self, request: Mapping[str, Any]) -> None:
        do = request.get("do")
        try:
            if do == "control":
                await self._open_control(text_of(request, "endpoint"))
            elif do == "data":
                await self._join(text_of(request, "token"), text_of(request, "party"))
            elif do == "listen":
                await self._listen(text_of(request, "token", 2000), request.get("hosts"))
            elif do == "replace":
                await self._replace(request)
            else:
                self._refuse(Ended.FORBIDDEN, "an unknown request")
        except DatabaseError as error:
            self._refuse(Ended.FAILED, reason_of(error))
        except ChannelRefusedError as error:
            self._refuse(error.code, error.reason)
        except OfferRefusedError as error:
            tallies.add("relay_refused", error.code.replace(" ", "_"))
            self._refuse(error.code, error.reason)

    async def _open_control(self, name: str) -> None:
        """Connect the caller with the agent of this endpoint. Raises ChannelRefusedError, DatabaseError."""
        tunnel = self._relay.tunnels.get(name)
        if tunnel is None:
            await self._send_elsewhere(name)
        elif tunnel.is_paused:
            self._refuse("paused", "")
        elif len(tunnel.channels.channels) >= self._relay.bounds.controls_of_agent:
            self._refuse(Ended.BUSY, "too many control connections to this computer")
        else:
            await self._bridge_control(tunnel)

    async def _bridge_control(self, tunnel: AgentTunnel) -> None:
        """Open a control channel in the tunnel, and copy both ways. Raises ChannelRefusedError."""
        opening = BridgeOpening()
        channel = tunnel.channels.open({"kind": "control"}, opening)
        try:
            await asyncio.wait_for(opening.done, OPEN_SECONDS)
        except TimeoutError:
            channel.reset(Ended.EXPIRED)
            raise ChannelRefusedError(Ended.AWAY, "the computer does not answer") from None
        if self._transport.is_closing():
            channel.reset(Ended.CLOSED)
            return
        self._send({"ok": True, "address": tunnel.address})
        bridge = Bridge(channel, CONTROL_WINDOW, lambda code: LAST_WORDS if code == Ended.AWAY else b"")
        self._hand_to(bridge)
        channel.grant(bridge.window)

    async def _join(self, text: str, party: str) -> None:
        """Offer the caller's connection to the other party of its token. Raises OfferRefusedError, DatabaseError."""
        token = self._relay.rendezvous.read(text, party)
        if token.parties[0] not in self._relay.tunnels:
            await self._send_elsewhere(token.parties[0])
            return
        self._offer = Offer(token, party, None, joined=self._joined, refused=self._refuse)
        self._relay.rendezvous.offer(self._offer)

    async def _listen(self, text: str, hosts: object) -> None:
        """Open a port for a server. It lasts as long as this connection. Raises OfferRefusedError, DatabaseError."""
        try:
            token = relay_messages.parse_token(text)
        except MessageError as error:
            raise OfferRefusedError(Ended.FORBIDDEN, str(error)) from None
        if token.parties[0] not in self._relay.tunnels:
            await self._send_elsewhere(token.parties[0])
            return
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise OfferRefusedError(Ended.FORBIDDEN, "no addresses of a server")
        if not self._transport.is_closing():
            self._entrance = self._relay.entrances.open(token, hosts)
            self._send({"ok": True, "host": self._entrance.host, "port": self._entrance.port})

    def _joined(self, bridge: MeteredBridge) -> None:
        self._send({"ok": True})
        self._hand_to(bridge)

    async def _replace(self, request: Mapping[str, Any]) -> None:
        epoch = request.get("epoch")
        gone = await self._relay.replace(
            text_of(request, "endpoint"), text_of(request, "instance"), epoch if isinstance(epoch, int) else -1
        )
        self._send({"gone": gone})
        self._transport.close()

    async def _send_elsewhere(self, name: str) -> None:
        """Name the relay process that holds the tunnel of this endpoint. Raises DatabaseError."""
        try:
            other = await self._relay.holder_of(name)
        except ValueError:
            other = None
        if other is None:
            self._refuse(Ended.AWAY, "")
        else:
            self._send({"at": str(other)})
            self._transport.close()

    def _hand_to(self, bridge: Bridge) -> None:
        self._offer = None
        self._transport.set_protocol(bridge)
        bridge.connection_made(self._transport)

    def _refuse(self, code: str, reason: str) -> None:
        self._send({"error": code, "reason": reason})
        self._transport.close()

    def _send(self, content: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._transport.write(relay_messages.answer(content))
