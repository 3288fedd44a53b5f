"""One end of a tunnel on an asyncio transport: WebSocket messages in and out, pings, and the channels."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from endpoints.gridftp.server.disconnects import steady_seconds

from . import frames, websocket
from .frames import FrameError
from .multiplexer import MAX_CHANNELS, Ended, Multiplexer, TunnelChannel
from .websocket import CloseCode, MessageDecoder, Opcode, WebSocketError

#: Seconds between two pings of the relay, and those without any octet after which either end gives the tunnel up.
#: `gcp_connected` is true within 5 s because of these two.
PING_SECONDS, DEAD_SECONDS = 1.5, 4.0
#: Octets that wait for the network before bridges stop reading; and those after which a peer that reads nothing but
#: makes us answer is given up.
HIGH_WATER, MAX_UNSENT = 256 << 10, 64 << 20


class TunnelLimits(NamedTuple):
    """Octets of data in one frame; octets that wait for the network before bridges stop reading; channels of a peer."""

    frame: int = frames.MAX_DATA
    high_water: int = HIGH_WATER
    channels: int = MAX_CHANNELS


class TunnelConnection(asyncio.Protocol, ABC):
    """One end of a tunnel. Subclasses implement `document_received`, `channel_opened` and `tunnel_lost`.

    is_client: the agent's end, which masks its frames.
    """

    def __init__(self, *, is_client: bool, limits: TunnelLimits = TunnelLimits()) -> None:  # noqa: B008 - immutable
        self._is_client, self._limits = is_client, limits
        self._decoder = MessageDecoder(from_client=not is_client, longest=frames.HEAD + limits.frame)
        first = 1 if is_client else 2
        self.channels = Multiplexer(first, self._write_frame, self.channel_opened, limits.channels, limits.frame)
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_event_loop()
        #: By `now`.
        self.heard_at = self.now()
        #: Why the connection has ended; "" while it has not.
        self.why_lost = ""
        #: Done when the connection is closed, and all channels have ended.
        self.lost: asyncio.Future[None] = self._loop.create_future()
        #: Whether channels may be used: the agent has signed in.
        self.signed_in = False

    # ---- for subclasses

    @abstractmethod
    def document_received(self, content: Mapping[str, Any]) -> None:
        """A message about the tunnel itself. Raises FrameError."""

    @abstractmethod
    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        """The other end has opened a channel."""

    def tunnel_lost(self) -> None:
        """Called once, after all channels have ended."""

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._limits.high_water)
        self.heard_at = self.now()

    def data_received(self, data: bytes) -> None:
        if self.signed_in and self.silent_seconds() > DEAD_SECONDS:
            # This machine has slept, or this process stood still: the peer has given the tunnel up, and what it said
            # before it did so is not wanted any more.
            self.abort("the connection was silent for too long")
            return
        self.heard_at = self.now()
        try:
            for message in self._decoder.feed(data):
                self._receive(message)
                if self.why_lost:
                    return
        except WebSocketError as error:
            self.close(error.reason, error.code)
        except FrameError as error:
            self.close(str(error), CloseCode.PROTOCOL_ERROR)

    def pause_writing(self) -> None:
        self.channels.congest(True)

    def resume_writing(self) -> None:
        self.channels.congest(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.why_lost = self.why_lost or (type(exc).__name__ if exc else "the connection was closed")
        self.transport = None
        self.channels.lose(Ended.AWAY, "the tunnel is lost")
        self.tunnel_lost()
        if not self.lost.done():
            self.lost.set_result(None)

    # ---- use

    @property
    def unsent(self) -> int:
        """Octets that wait for the network."""
        return self.transport.get_write_buffer_size() if self.transport else 0

    def now(self) -> float:
        """The clock of `heard_at`. It goes on while this machine sleeps, as the clock of the peer does."""
        return steady_seconds()

    def silent_seconds(self) -> float:
        """Seconds since the last octet of the peer."""
        return self.now() - self.heard_at

    def send_document(self, content: Mapping[str, Any]) -> None:
        self._write(Opcode.TEXT, json.dumps(content).encode())

    def ping(self) -> None:
        self._write(Opcode.PING, b"")

    def close(self, reason: str, code: CloseCode = CloseCode.NORMAL) -> None:
        """End the tunnel at once: the peer may not read."""
        if self.why_lost:
            return
        self.why_lost = reason
        if self.transport is not None:
            self._write(Opcode.CLOSE, websocket.close_payload(code, reason))
            # `close` sends what is buffered, which takes as long as the peer likes.
            self.transport.close()
            self._loop.call_later(1.0, self._abort)

    def abort(self, reason: str) -> None:
        """End the tunnel without a word: the peer is not there any more."""
        self.why_lost = self.why_lost or reason
        self._abort()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # ---- inside

    def _receive(self, message: websocket.Message) -> None:
        """Take one message of the peer. Raises FrameError."""
        if message.opcode is Opcode.BINARY:
            if not self.signed_in:
                raise FrameError("channels come after the sign-in")
            self.channels.receive(message.payload)
        elif message.opcode is Opcode.TEXT:
            self.document_received(frames.parse_document(message.payload))
        elif message.opcode is Opcode.PING:
            self._write(Opcode.PONG, message.payload)
        elif message.opcode is Opcode.CLOSE:
            self.close(message.payload[2:].decode("utf-8", "replace") or "the peer has closed the tunnel")

    def _write_frame(self, frame: bytes) -> None:
        self._write(Opcode.BINARY, frame)

    def _write(self, opcode: Opcode, payload: bytes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(websocket.encode(opcode, payload, mask=self._is_client))
        if self.transport.get_write_buffer_size() > MAX_UNSENT:
            self.abort("the peer does not read")
