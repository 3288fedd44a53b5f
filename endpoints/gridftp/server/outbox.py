"""The replies between a session's worker thread and its control channel."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

from .errors import ClientGoneError
from .wires import ClearWire

#: Maximum of octets held back, so that the replies to many small files go out together.
_HELD = 16 * 1024
#: Seconds that a reply is held back while other commands run.
_HELD_SECONDS = 0.005
#: Maximum of seconds to send the last replies when a session ends.
_CLOSE_SECONDS = 5.0


class Outbox:
    """The replies of one session: its worker fills it, the loop empties it.

    A hand-over costs more than a small file, and so there are few.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, timeout: float) -> None:
        self._loop = loop
        self._transport = transport
        self._timeout = timeout
        self._parts: list[bytes] = []
        self._size = 0
        self._oldest = 0.0
        self._wire = ClearWire(0)
        self._room = threading.Event()
        self._room.set()

    def say(self, reply: bytes) -> None:
        if not self._parts:
            self._oldest = monotonic()
        self._parts.append(reply)
        self._size += len(reply)
        if self._size > _HELD:
            self.flush()

    def flush_if_due(self) -> None:
        if self._parts and monotonic() - self._oldest > _HELD_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand the replies over. Raises ClientGoneError when the client is gone, or has not read for long."""
        if not self._parts:
            return
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if not self._room.wait(self._timeout):
            self.close()
            raise ClientGoneError
        self._call(self._write, data)

    def settle(self) -> None:
        """Return when all replies are written to the transport. Raises ClientGoneError."""
        self.flush()
        written = threading.Event()
        self._call(written.set)
        written.wait(_CLOSE_SECONDS)

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call it in the loop, after all replies so far are written. Raises ClientGoneError."""
        self.flush()
        self._call(function, *arguments)

    def close(self) -> None:
        """Close the connection when all is written; at the latest after `_CLOSE_SECONDS`."""
        self._call(self.finish)

    # ---- called in the loop

    def finish(self, farewell: bytes = b"") -> None:
        if not self._transport.is_closing():
            self._transport.write(self._wire.replies(farewell))
            self._transport.close()
        self._loop.call_later(_CLOSE_SECONDS, self._transport.abort)

    def set_room(self, room: bool) -> None:
        """asyncio's flow control: whether the client reads our output."""
        if room:
            self._room.set()
        else:
            self._room.clear()

    def use(self, wire: ClearWire) -> None:
        """The form of all replies from now on."""
        self._wire = wire

    def send_raw(self, data: bytes) -> None:
        """Octets of the wire itself."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._wire.replies(data))

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError as error:  # the loop is closed: the server has been stopped
            raise ClientGoneError from error
