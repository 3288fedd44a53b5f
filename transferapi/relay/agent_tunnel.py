"""The relay's ends of the tunnels of agents: sign-in, channels, and the rules that an agent must keep."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from endpoints.connect import presence
from endpoints.gridftp.agent.tunnel import frames, sign_in
from endpoints.gridftp.agent.tunnel.connection import TunnelConnection, TunnelLimits
from endpoints.gridftp.agent.tunnel.data_tunnels import DATA_TUNNEL_LIMITS
from endpoints.gridftp.agent.tunnel.frames import FrameError
from endpoints.gridftp.agent.tunnel.multiplexer import Ended, TunnelChannel
from endpoints.gridftp.agent.tunnel.websocket import CloseCode, Message

from .sign_in import SignInRefusedError

if TYPE_CHECKING:
    from .relay import Relay


class RelayEnd(TunnelConnection):
    """A tunnel of either kind, a stranger until its agent has signed in.

    address: of the agent's network, as the front server reports it.
    """

    def __init__(self, relay: Relay, address: str, limits: TunnelLimits) -> None:
        super().__init__(is_client=False, limits=limits)
        self.relay, self.address = relay, address
        #: Of the current second: its number, messages, and the octets of them.
        self._second, self._messages, self._octets = 0, 0, 0
        self._no_sign_in = self._loop.call_later(relay.bounds.sign_in_seconds, self.abort, "no sign-in in time")

    def _leave_strangers(self) -> None:
        """It counts as a stranger no more; a second call has no effect."""
        self._no_sign_in.cancel()
        self.relay.strangers.leave(self)

    def refuse(self, code: str, reason: str, retry: float | None = None) -> None:
        self.send_document({"refused": code, "reason": reason, "retry": retry})
        self.close(reason, CloseCode.POLICY)

    def say_goodbye(self, reason: str, retry: float) -> None:
        self.send_document({"goodbye": reason, "retry": retry})
        self.close(reason, CloseCode.GOING_AWAY)

    @property
    def agent(self) -> AgentTunnel:
        """The tunnel by which the agent has signed in."""
        raise NotImplementedError

    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        if content.get("kind") != "data":
            channel.refuse(Ended.FORBIDDEN, "the relay accepts data channels only")
            return
        self.relay.offered(self.agent, channel, frames.text_of(content, "token", 2000))

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
        if self._messages > self.relay.bounds.messages + self._octets // 256:
            raise FrameError("a flood of small messages")


class AgentTunnel(RelayEnd):
    """The tunnel that an agent keeps."""

    def __init__(self, relay: Relay, address: str) -> None:
        super().__init__(relay, address, TunnelLimits())
        self.nonce = secrets.token_bytes(sign_in.NONCE_OCTETS)
        #: After the sign-in: the endpoint, the running program of the agent, and the epoch of the tunnel.
        self.endpoint_id = ""
        self.instance, self.held = "", presence.Held(uuid.UUID(int=0), 0, "")
        self.is_paused = False
        self._proved = False
        #: By which the agent proves that further tunnels are its own, and those that it has.
        self.data_key = secrets.token_hex(32)
        self.data_tunnels: set[DataTunnel] = set()

    @property
    def agent(self) -> AgentTunnel:
        return self

    def challenge(self) -> None:
        self.send_document({"challenge": self.nonce.hex(), "version": sign_in.VERSION})

    def welcome(self, held: presence.Held) -> None:
        self._leave_strangers()
        self.endpoint_id, self.held = str(held.endpoint_id), held
        self.signed_in = True
        data = {"key": self.data_key, "most": self.relay.bounds.data_tunnels_of_agent}
        self.send_document({"welcome": self.held.epoch, "data": data})

    def document_received(self, content: Mapping[str, Any]) -> None:
        if not self._proved:
            self._proved = True
            # From now on the agent waits for us: a busy machine must not make it begin anew.
            self._no_sign_in.cancel()
            self.instance = frames.text_of(content, "instance", 64)
            self.relay.arrived(self, content)
        elif not self.signed_in:
            raise FrameError("nothing is said before the welcome")
        elif isinstance(content.get("paused"), bool):
            self.is_paused = content["paused"]
            self.relay.paused(self, self.is_paused)

    def tunnel_lost(self) -> None:
        self._leave_strangers()
        for further in list(self.data_tunnels):
            further.abort("the tunnel of the agent is lost")
        self.relay.gone(self)


class DataTunnel(RelayEnd):
    """A further tunnel of an agent, for data (`data_tunnels`). It ends with the agent's own."""

    def __init__(self, relay: Relay, address: str) -> None:
        super().__init__(relay, address, DATA_TUNNEL_LIMITS)
        self._agent: AgentTunnel | None = None

    @property
    def agent(self) -> AgentTunnel:
        assert self._agent is not None
        return self._agent

    def welcome(self) -> None:
        self._leave_strangers()
        self.signed_in = True
        self.send_document({"welcome": 0})

    def document_received(self, content: Mapping[str, Any]) -> None:
        if self._agent is not None:
            raise FrameError("a second key")
        try:
            self._agent = self.relay.agent_of(frames.text_of(content, "key"))
        except SignInRefusedError as error:
            self.refuse(error.code, error.reason)
            return
        self._agent.data_tunnels.add(self)
        self.welcome()

    def tunnel_lost(self) -> None:
        self._leave_strangers()
        if self._agent is not None:
            self._agent.data_tunnels.discard(self)
