"""Transports of streams: what a server sends to one client, as the loop of an ASGI server or a thread takes it.

No write blocks. Octets that a client has not taken are buffered up to a bound that the caller keeps (`pending`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

#: A comment line: without it, proxies could take a quiet stream for a dead connection.
HEARTBEAT, HEARTBEAT_SECONDS = b": \n\n", 15.0
#: Where a stream holds a thread, which sees the end of its client only when it sends.
THREAD_HEARTBEAT_SECONDS = 2.0


class StreamTransport(Protocol):
    """Accepts octets at any time, and counts those that the client has not taken."""

    @property
    def pending(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Close it when the client has taken all octets."""


class ThreadTransport:
    """For servers that use a thread for each stream: the iterator returns what is written."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._waits = threading.Condition()
        self._finished = False
        self.closed = False

    @property
    def pending(self) -> int:
        with self._waits:
            return sum(map(len, self._chunks))

    def write(self, data: bytes) -> None:
        with self._waits:
            self._chunks.append(data)
            self._waits.notify()

    def finish(self) -> None:
        with self._waits:
            self._finished = True
            self._waits.notify()

    def close(self) -> None:
        """The client is gone."""
        self.closed = True

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._waits:
                self._waits.wait_for(lambda: self._chunks or self._finished, THREAD_HEARTBEAT_SECONDS)
                data = b"".join(self._chunks)
                self._chunks.clear()
                finished = self._finished
            if data or not finished:
                yield data or HEARTBEAT
            else:
                return


class LoopTransport:
    """For ASGI servers: an asynchronous iterator in their loop returns what is written, from any thread."""

    def __init__(self) -> None:
        """In the loop."""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._finished = False
        self.closed = False

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def write(self, data: bytes) -> None:
        with self._lock:
            self._buffer += data
        self._wake()

    def finish(self) -> None:
        with self._lock:
            self._finished = True
        self._wake()

    def close(self) -> None:
        """The client is gone."""
        self.closed = True

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # The server has stopped, and its loop with it.
            self._loop.call_soon_threadsafe(self._changed.set)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self._changed.clear()
            with self._lock:
                data, self._buffer = bytes(self._buffer), bytearray()
                finished = self._finished
            if data:
                yield data
            elif finished:
                return
            else:
                try:
                    await asyncio.wait_for(self._changed.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield HEARTBEAT
