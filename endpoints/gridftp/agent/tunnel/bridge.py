"""A channel of a tunnel, joined with a connected socket of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, cast

from .frames import MAX_DATA
from .multiplexer import ChannelHandler, Ended, TunnelChannel

#: Octets that a channel may have under way to us: those of a control channel, and those of a data channel.
CONTROL_WINDOW = 64 << 10
DATA_WINDOW = 256 << 10


class Bridge(ChannelHandler, asyncio.BufferedProtocol):
    """Copies both ways until both ends have finished, or one is lost.

    window: octets that the channel may send before the socket has taken them. last_words: what is written to the
    socket where the channel is reset, by its code. buffer: for what is read from the socket.
    """

    def __init__(
        self,
        channel: TunnelChannel,
        window: int,
        last_words: Callable[[str], bytes] = lambda code: b"",
        buffer: bytearray | None = None,
    ) -> None:
        self.channel = channel
        self.window = window
        self._last_words = last_words
        self._transport: asyncio.Transport | None = None
        self._buffer = buffer or bytearray(min(MAX_DATA, window))
        self._reading = self._finished = False
        #: Octets that the socket has taken, and for which no credit has been granted.
        self._taken = 0
        self._blocked = False
        #: Octets of the channel that came before the socket, at most one window; None if it has come.
        self._early: bytearray | None = bytearray()
        self.lost: Callable[[], None] = lambda: None
        channel.handler = self

    # ---- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self.window // 2)
        self._reading = True
        early, self._early = self._early, None
        if self.channel.ended:
            self._transport.abort()
        else:
            if early:
                self.data(bytes(early))
            if self.channel.got_finish:
                self.finished()
        # Later: asyncio of some Pythons (3.11.2) begins to read after this call, although reading was paused in it.
        asyncio.get_event_loop().call_soon(self.choose_reading)

    def get_buffer(self, sizehint: int) -> Any:
        return memoryview(self._buffer)[: max(1, min(len(self._buffer), self.channel.credit))]

    def buffer_updated(self, nbytes: int) -> None:
        # Octets that were being read when the channel ended.
        if not self.channel.ended:
            self.channel.send(bytes(memoryview(self._buffer)[:nbytes]))
            self.choose_reading()

    def eof_received(self) -> bool:
        self._finished = True
        self.channel.finish()
        self._close_if_done()
        return not self.channel.got_finish

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._grant()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.channel.reset(Ended.CLOSED)
        self.lost()

    # ---- the channel

    def accepted(self) -> None:
        self.give_credit(self.window)

    def data(self, octets: bytes) -> None:
        if self._early is not None:
            self._early += octets
            return
        if self._transport is None:
            self.channel.reset(Ended.CLOSED)
            return
        self._transport.write(octets)
        self._taken += len(octets)
        self._grant()

    def _grant(self) -> None:
        """Let the peer send as many octets as the socket has taken; not for each frame alone."""
        if not self._blocked and self._taken >= self.window // 4:
            taken, self._taken = self._taken, 0
            self.give_credit(taken)

    def give_credit(self, octets: int) -> None:
        """Let the peer send so many octets more."""
        self.channel.grant(octets)

    def may_read(self) -> bool:
        """Whether octets of the socket can be passed on now."""
        return self.channel.credit > 0 and not self.channel.congested

    def credit(self) -> None:
        self.choose_reading()

    def congested(self, full: bool) -> None:
        self.choose_reading()

    def finished(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(OSError):
                self._transport.write_eof()
        self._close_if_done()

    def reset(self, code: str, reason: str) -> None:
        if self._transport is None:
            return
        words = self._last_words(code)
        if words:
            self._transport.write(words)
            self._transport.close()
        else:
            self._transport.abort()

    def _close_if_done(self) -> None:
        """Both ends have finished: close the socket after what is still to be written."""
        if self._finished and self.channel.got_finish and self._transport is not None:
            self._transport.close()

    def choose_reading(self) -> None:
        """Read from the socket only what the channel takes."""
        wanted = self.may_read() and not self._finished
        if self._transport is None or self._transport.is_closing() or wanted is self._reading:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


class BridgeOpening(ChannelHandler):
    """Waits for the answer of the other end to a channel that we open: `done`, which raises ChannelRefusedError."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_event_loop().create_future()

    def accepted(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def reset(self, code: str, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(ChannelRefusedError(code, reason))


class ChannelRefusedError(ConnectionRefusedError):
    """The other end has refused a channel. code: of `Ended`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}" if reason else code)
        self.code, self.reason = code, reason


async def serve(bridge: Bridge, serve_socket: Callable[[socket.socket], None], early: int = 0) -> None:
    """Accept the channel of a bridge, whose other end `serve_socket` serves; refuse it where that is not possible.

    early: octets that the peer may have sent before the channel is accepted.
    """
    channel = bridge.channel
    try:
        near, far = socket.socketpair()
    except OSError as error:  # no descriptor is left
        channel.refuse(Ended.FAILED, str(error))
        return
    try:
        await attach(bridge, near)
        serve_socket(far)
    except Exception as error:  # the server refuses, or has stopped
        near.close()
        far.close()
        channel.refuse(Ended.FAILED, str(error))
    else:
        channel.accept(bridge.window - early)


async def attach(bridge: Bridge, sock: socket.socket) -> None:
    """Give the bridge its socket. Raises OSError."""
    sock.setblocking(False)
    loop = asyncio.get_event_loop()
    await loop.create_connection(lambda: bridge, sock=sock)
