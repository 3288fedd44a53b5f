"""The relay's end of a tunnel: sign-in, channels, and the rules that an agent must keep."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

from endpoints.connect import presence
from endpoints.gridftp.agent.tunnel import frames, sign_in
from endpoints.gridftp.agent.tunnel.connection import TunnelConnection
from endpoints.gridftp.agent.tunnel.frames import FrameError
from endpoints.gridftp.agent.tunnel.multiplexer import Ended, TunnelChannel
from endpoints.gridftp.agent.tunnel.websocket import CloseCode, Message

from .bounds import RelayBounds


class TunnelOwner(Protocol):
    """The services of a relay to its tunnels."""

    bounds: RelayBounds

    def arrived(self, tunnel: AgentTunnel, proof: Mapping[str, Any]) -> None:
        """An agent has sent its proof."""

    def offered(self, tunnel: AgentTunnel, channel: TunnelChannel, token: str) -> None:
        """An agent that has signed in wants a data channel."""

    def paused(self, tunnel: AgentTunnel, paused: bool) -> None: ...

    def gone(self, tunnel: AgentTunnel) -> None: ...


class AgentTunnel(TunnelConnection):
    """address: of the agent's network, as the front server reports it."""

    def __init__(self, owner: TunnelOwner, address: str) -> None:
        super().__init__(is_client=False)
        self.owner, self.address = owner, address
        self.nonce = secrets.token_bytes(sign_in.NONCE_OCTETS)
        #: After the sign-in: the endpoint, the running program of the agent, and the epoch of the tunnel.
        self.endpoint_id = ""
        self.instance, self.held = "", presence.Held(uuid.UUID(int=0), 0, "")
        self.is_paused = False
        self._proved = False
        #: Of the current second: its number, messages, and the octets of them.
        self._second, self._messages, self._octets = 0, 0, 0

    def challenge(self) -> None:
        self.send_document({"challenge": self.nonce.hex(), "version": sign_in.VERSION})

    def welcome(self, held: presence.Held) -> None:
        self.endpoint_id, self.held = str(held.endpoint_id), held
        self.signed_in = True
        self.send_document({"welcome": self.held.epoch})

    def refuse(self, code: str, reason: str, retry: float | None = None) -> None:
        self.send_document({"refused": code, "reason": reason, "retry": retry})
        self.close(reason, CloseCode.POLICY)

    def say_goodbye(self, reason: str, retry: float) -> None:
        self.send_document({"goodbye": reason, "retry": retry})
        self.close(reason, CloseCode.GOING_AWAY)

    def document_received(self, content: Mapping[str, Any]) -> None:
        if not self._proved:
            self._proved = True
            self.instance = frames.text_of(content, "instance", 64)
            self.owner.arrived(self, content)
        elif not self.signed_in:
            raise FrameError("nothing is said before the welcome")
        elif isinstance(content.get("paused"), bool):
            self.is_paused = content["paused"]
            self.owner.paused(self, self.is_paused)

    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        if content.get("kind") != "data":
            channel.refuse(Ended.FORBIDDEN, "the relay accepts data channels only")
            return
        self.owner.offered(self, channel, frames.text_of(content, "token", 2000))

    def tunnel_lost(self) -> None:
        self.owner.gone(self)

    def _receive(self, message: Message) -> None:
        self._count(len(message.payload))
        super()._receive(message)

    def _count(self, octets: int) -> None:
        """Raises FrameError where an agent sends more messages than data and credit need."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._messages, self._octets = second, 0, 0
        self._messages += 1
        self._octets += octets
        if self._messages > self.owner.bounds.messages + self._octets // 256:
            raise FrameError("a flood of small messages")
