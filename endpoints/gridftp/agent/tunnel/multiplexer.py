"""The channels of one tunnel, without input and output: their numbers, their states, and their credit.

A channel carries octets in both directions. An end sends only as many octets as the other end has granted (credit), so
a reader that is slow holds up its own channel and no other, and the memory of a channel is bounded by its window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import frames
from .frames import MAX_DATA, Frame, FrameError, FrameType

#: The most octets that an end may grant: a larger sum is an error of the peer.
MAX_CREDIT = 16 << 20
#: Channels that a peer may have opened at a time; more are refused.
MAX_CHANNELS = 128


class ChannelHandler:
    """The reactions of one end of a channel to its events. `reset` comes at most once, and nothing comes after it."""

    def accepted(self) -> None:
        """The peer has accepted the channel that we opened."""

    def data(self, octets: bytes) -> None: ...

    def credit(self) -> None:
        """More octets may be sent than before."""

    def finished(self) -> None:
        """The peer sends no more data."""

    def reset(self, code: str, reason: str) -> None:
        """The channel has ended: refused, cut, or lost with its tunnel. code: a word of `Ended`."""

    def congested(self, full: bool) -> None:
        """The tunnel takes no more at present (full), or again."""


class Ended:
    """Codes of refusals and resets, as they are on the wire."""

    AWAY = "away"  # the tunnel of the other party is lost
    BUSY = "busy"  # a limit is reached
    CLOSED = "closed"  # the other end has closed its socket
    EXPIRED = "expired"  # the token has expired, or nobody has come
    FORBIDDEN = "forbidden"
    FAILED = "failed"
    IDLE = "idle"


class TunnelChannel:
    """One channel. `send`, `finish`, `grant`, `reset` may be called until the channel has ended."""

    def __init__(self, number: int, tunnel: Multiplexer) -> None:
        self.number = number
        self.handler = ChannelHandler()
        #: Octets that we may send, and those that the peer may send.
        self.credit = self.granted = 0
        self.open = False
        self.ended = False
        self.sent_finish = self.got_finish = False
        self._tunnel = tunnel

    @property
    def congested(self) -> bool:
        return self._tunnel.congested

    def accept(self, window: int) -> None:
        """Accept a channel that the peer has opened, and let it send so many octets."""
        self.open = True
        self._tunnel.write(frames.encode(FrameType.ACCEPT, self.number))
        self.grant(window)

    def refuse(self, code: str, reason: str) -> None:
        self._end(FrameType.REFUSE, code, reason)

    def send(self, data: bytes) -> None:
        """Send at most `credit` octets."""
        if len(data) > self.credit:
            raise ValueError("more than the credit")
        self.credit -= len(data)
        longest = self._tunnel.longest
        for begin in range(0, len(data), longest):
            self._tunnel.write(frames.encode(FrameType.DATA, self.number, data[begin : begin + longest]))

    def grant(self, octets: int) -> None:
        """Let the peer send so many octets more."""
        if octets and not self.ended and not self.got_finish:
            self.granted += octets
            self._tunnel.write(frames.credit(self.number, octets))

    def finish(self) -> None:
        """Send no more data. The channel ends when both ends have finished."""
        if not self.ended and not self.sent_finish:
            self.sent_finish = True
            self._tunnel.write(frames.encode(FrameType.FINISH, self.number))
            self._end_if_done()

    def reset(self, code: str = Ended.CLOSED, reason: str = "") -> None:
        """End the channel; no event goes to its own handler."""
        self._end(FrameType.RESET, code, reason)

    def _end(self, type_: FrameType, code: str, reason: str) -> None:
        if not self.ended:
            self.ended = True
            self._tunnel.forget(self)
            self._tunnel.write(frames.document(type_, self.number, {"code": code, "reason": reason}))

    def _end_if_done(self) -> None:
        if self.sent_finish and self.got_finish and not self.ended:
            self.ended = True
            self._tunnel.forget(self)

    # ---- frames of the peer

    def receive(self, frame: Frame) -> None:
        """Take one frame of this channel. Raises FrameError."""
        if frame.type is FrameType.DATA:
            self._receive_data(frame.payload)
        elif frame.type is FrameType.CREDIT:
            self.credit += frames.octets_of_credit(frame.payload)
            if self.credit > MAX_CREDIT:
                raise FrameError("more credit than there can be")
            self.handler.credit()
        elif frame.type is FrameType.ACCEPT:
            if self.open or self._tunnel.is_theirs(self.number):
                raise FrameError("a channel is accepted once, by the other end")
            self.open = True
            self.handler.accepted()
        elif frame.type is FrameType.FINISH:
            self._receive_finish()
        else:
            content = frames.parse_document(frame.payload)
            self.lose(frames.text_of(content, "code", 20), frames.text_of(content, "reason"))

    def _receive_data(self, data: bytes) -> None:
        self.granted -= len(data)
        if self.granted < 0 or self.got_finish or not data:
            raise FrameError("data without credit, after the end, or none")
        self.handler.data(data)

    def _receive_finish(self) -> None:
        if self.got_finish or not self.open:
            raise FrameError("a channel is finished once, after it was opened")
        self.got_finish = True
        self.handler.finished()
        self._end_if_done()

    def lose(self, code: str, reason: str) -> None:
        """The peer has ended the channel, or the tunnel is lost."""
        if not self.ended:
            self.ended = True
            self._tunnel.forget(self)
            self.handler.reset(code, reason)


class Multiplexer:
    """All channels of one tunnel.

    first: the number of our first channel, 1 for the agent and 2 for the relay. write: sends one frame, with at most
    `longest` octets of data.
    opened: called with a channel that the peer opens; it accepts or refuses it, at once or later.
    """

    def __init__(
        self,
        first: int,
        write: Callable[[bytes], None],
        opened: Callable[[TunnelChannel, Mapping[str, Any]], None],
        most: int = MAX_CHANNELS,
        longest: int = MAX_DATA,
    ) -> None:
        self.write = write
        self.longest = longest
        self.congested = False
        self._opened, self._most = opened, most
        self._next, self._parity = first, first % 2
        self._last_of_peer = 0
        self._theirs = 0
        self.channels: dict[int, TunnelChannel] = {}

    def is_theirs(self, number: int) -> bool:
        return number % 2 != self._parity

    def open(self, content: Mapping[str, Any], handler: ChannelHandler) -> TunnelChannel:
        """Ask the peer for a channel; the handler learns the answer."""
        channel = TunnelChannel(self._next, self)
        self._next += 2
        channel.handler = handler
        self.channels[channel.number] = channel
        self.write(frames.document(FrameType.OPEN, channel.number, content))
        return channel

    def receive(self, message: bytes) -> None:
        """Take one frame of the peer. Raises FrameError."""
        frame = frames.decode(message)
        if frame.type is FrameType.OPEN:
            self._receive_open(frame)
            return
        channel = self.channels.get(frame.channel)
        if channel is not None:
            channel.receive(frame)
        elif not 0 < frame.channel <= (self._last_of_peer if self.is_theirs(frame.channel) else self._next - 1):
            raise FrameError("a channel that was never opened")
        # Frames of a channel that has ended here may still be on their way.

    def _receive_open(self, frame: Frame) -> None:
        if not self.is_theirs(frame.channel) or frame.channel <= self._last_of_peer:
            raise FrameError("the number of a new channel is not the peer's, or was used before")
        self._last_of_peer = frame.channel
        content = frames.parse_document(frame.payload)
        channel = TunnelChannel(frame.channel, self)
        if self._theirs >= self._most:
            channel.refuse(Ended.BUSY, "too many channels are open")
            return
        self._theirs += 1
        self.channels[frame.channel] = channel
        self._opened(channel, content)

    def forget(self, channel: TunnelChannel) -> None:
        if self.channels.pop(channel.number, None) is not None and self.is_theirs(channel.number):
            self._theirs -= 1

    def congest(self, full: bool) -> None:
        """The transport takes no more at present, or again."""
        self.congested = full
        for channel in list(self.channels.values()):
            channel.handler.congested(full)

    def lose(self, code: str, reason: str) -> None:
        """The tunnel is lost: end all channels."""
        for channel in list(self.channels.values()):
            channel.lose(code, reason)
