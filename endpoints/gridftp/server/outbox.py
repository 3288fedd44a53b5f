"""Replies on their way from a session's worker to its control channel."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import monotonic

from .errors import ClientGoneError

#: Octets held back at most, so that the replies to many small files go out together.
_HELD = 16 * 1024
#: Seconds that a reply is held back while other commands are done.
_HELD_SECONDS = 0.005
#: For the last replies to leave, when a session ends.
_LAST_WORDS_SECONDS = 5.0


class Outbox:
    """Filled by the worker, emptied by the loop. A hand-over costs more than a small file: hence few of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, patience: float) -> None:
        self._loop = loop
        self._transport = transport
        self._patience = patience
        self._parts: list[bytes] = []
        self._size = 0
        self._oldest = 0.0
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
        """-> ClientGoneError when the client has not read its replies for long, or is gone."""
        if not self._parts:
            return
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if not self._room.wait(self._patience):
            self.close()
            raise ClientGoneError
        self._call(self._write, data)

    def settle(self) -> None:
        """Return when all that was said is on its way. -> ClientGoneError"""
        self.flush()
        written = threading.Event()
        self._call(written.set)
        written.wait(_LAST_WORDS_SECONDS)

    def close(self) -> None:
        """Hang up once everything is written, which a client that does not read cannot delay for ever."""
        self._call(self.finish)

    # ---- called in the loop

    def finish(self, farewell: bytes = b"") -> None:
        if not self._transport.is_closing():
            self._transport.write(farewell)
            self._transport.close()
        self._loop.call_later(_LAST_WORDS_SECONDS, self._transport.abort)

    def set_room(self, room: bool) -> None:
        """asyncio's flow control: whether the client takes what we write."""
        if room:
            self._room.set()
        else:
            self._room.clear()

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError as error:  # the loop is closed: the server has been stopped
            raise ClientGoneError from error
