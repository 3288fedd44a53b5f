"""Sending a file: from the disk to data connections by sendfile, without a copy in this process."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Tuple

from endpoints.gridftp.server.errors import DataError, ServerError, is_of_socket
from endpoints.gridftp.server.limits import ServerLimits
from endpoints.gridftp.server.polling import POLLOUT
from endpoints.gridftp.server.positions import read_at

from .channel import DataChannel
from .connection import ENCRYPT_SIZE, DataConnection
from .files_moved import TellOctets, tell_nobody
from .mode_e import Header, end_of_data

#: Octets of a block of MODE E: large enough that headers cost little, small enough for parallel streams.
BLOCK_SIZE = 4 * 1024 * 1024
#: A file up to this size is read, and sent with its header and EOD by one system call.
_SMALL = 64 * 1024
_COPY_SIZE = 256 * 1024
_CANNOT_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)

Piece = Tuple[int, int]


class Source:
    """The file being read. Offsets are those of the transfer; the offset in the file is `shift` (ERET) more."""

    def __init__(self, fd: int, pieces: list[Piece], shift: int = 0, tell_octets: TellOctets = tell_nobody) -> None:
        #: Half-open ranges to send, ascending.
        self.pieces = pieces
        self.octets = sum(end - start for start, end in pieces)
        self._fd = fd
        self._shift = shift
        self._can_sendfile = hasattr(os, "sendfile")
        self._sent, self._tell_octets = 0, tell_octets

    def blocks(self) -> Iterator[Piece]:
        for start, end in self.pieces:
            for at in range(start, end, BLOCK_SIZE):
                yield at, min(at + BLOCK_SIZE, end)

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` octets, at least one. Raises ServerError when the file has become shorter."""
        data = read_at(self._fd, length, offset + self._shift)
        if not data and length:
            raise _shrank()
        return data

    def read_all(self, offset: int, length: int) -> bytes:
        data = self.read(offset, length)
        while len(data) < length:
            data += self.read(offset + len(data), length - len(data))
        return data

    def send(self, connection: DataConnection, offset: int, length: int) -> int:
        """Some octets from `offset` on. Raises BlockingIOError, DataError, ServerError, OSError of the file."""
        sent = self._send(connection, offset, length)
        self._sent += sent
        self._tell_octets(self._sent, self.octets)
        return sent

    def _send(self, connection: DataConnection, offset: int, length: int) -> int:
        if connection.encrypted:
            ours = b"again" if connection.insists else self.read(offset, min(length, ENCRYPT_SIZE))
            return send_octets(connection, ours)
        if not self._can_sendfile:
            return send_octets(connection, self.read(offset, min(length, _COPY_SIZE)))
        try:
            sent = os.sendfile(connection.fileno(), self._fd, offset + self._shift, length)
        except BlockingIOError:
            raise
        except OSError as error:
            if is_of_socket(error):
                raise DataError.broken(error) from error
            if error.errno not in _CANNOT_SENDFILE:
                raise
            self._can_sendfile = False
            return self._send(connection, offset, length)
        if not sent:
            raise _shrank()
        return sent


def _shrank() -> ServerError:
    return ServerError(451, "The file has become shorter while it was sent.")


def send_octets(connection: DataConnection, data: bytes | memoryview) -> int:
    """Send some of the octets. Raises BlockingIOError, DataError."""
    try:
        return connection.send(data)
    except BlockingIOError:
        raise
    except OSError as error:
        raise DataError.broken(error) from error


class _Stream:
    """One connection's part of a file in MODE E: octets to send first (`head`), then blocks of the file."""

    __slots__ = ("at", "connection", "done", "end", "head")

    def __init__(self, connection: DataConnection) -> None:
        self.connection = connection
        self.head = memoryview(b"")
        self.at = self.end = 0
        #: The header with EOD is in `head` already.
        self.done = False

    @property
    def idle(self) -> bool:
        return not self.head and self.at == self.end


class Sender:
    """Sends one file or listing on a data channel."""

    def __init__(self, channel: DataChannel, limits: ServerLimits) -> None:
        self._channel = channel
        self._limits = limits
        self._late = DataError(426, "Data connection stalled: timed out without an octet.")

    # ---- MODE S (RFC 959 section 3.4.1)

    def stream(self, connection: DataConnection, source: Source) -> None:
        for start, end in source.pieces:
            at = start
            while at < end:
                self._channel.check()
                try:
                    at += source.send(connection, at, min(end - at, BLOCK_SIZE))
                except BlockingIOError:
                    self._wait([connection])

    def stream_octets(self, connection: DataConnection, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self._send_all(connection, chunk)

    # ---- MODE E (GFD.20)

    def blocks(self, connections: list[DataConnection], source: Source) -> None:
        """Send the file in MODE E: the next block goes to the first connection that is ready."""
        streams = [_Stream(connection) for connection in connections]
        if source.octets <= _SMALL:
            self._prepare_small(streams, source)
        blocks = source.blocks()
        busy = ready = streams
        while True:
            for stream in ready:
                self._push(stream, source, blocks, len(streams) if stream is streams[0] else None)
            busy = [stream for stream in busy if not (stream.done and stream.idle)]
            if not busy:
                return
            ready = self._ready(busy)

    def block_octets(self, connections: list[DataConnection], chunks: Iterable[bytes]) -> None:
        """Octets without ranges (a listing), on the first connection."""
        first, offset = connections[0], 0
        for chunk in chunks:
            self._send_all(first, Header(0, len(chunk), offset).encode() + chunk)
            offset += len(chunk)
        for connection in connections:
            self._send_all(connection, end_of_data(len(connections) if connection is first else None))

    def _prepare_small(self, streams: list[_Stream], source: Source) -> None:
        """Prepare a small file: header, octets and EOD go out in one system call for each connection."""
        parts = [
            Header(0, end - start, start).encode() + source.read_all(start, end - start) for start, end in source.pieces
        ]
        streams[0].head = memoryview(b"".join([*parts, end_of_data(len(streams))]))
        for stream in streams[1:]:
            stream.head = memoryview(end_of_data())
        for stream in streams:
            stream.done = True

    def _push(self, stream: _Stream, source: Source, blocks: Iterator[Piece], streams: int | None) -> None:
        """Send until this connection would block or has completed a block; then others get their turn."""
        try:
            while True:
                if stream.head:
                    stream.head = stream.head[send_octets(stream.connection, stream.head) :]
                elif stream.at < stream.end:
                    stream.at += source.send(stream.connection, stream.at, stream.end - stream.at)
                    if stream.at == stream.end:
                        return
                elif stream.done:
                    return
                else:
                    self._next_block(stream, blocks, streams)
        except BlockingIOError:
            pass

    def _next_block(self, stream: _Stream, blocks: Iterator[Piece], streams: int | None) -> None:
        block = next(blocks, None)
        if block is None:
            stream.done = True
            stream.head = memoryview(end_of_data(streams))
        else:
            stream.at, stream.end = block
            stream.head = memoryview(Header(0, stream.end - stream.at, stream.at).encode())

    # ---- both

    def _send_all(self, connection: DataConnection, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[send_octets(connection, view) :]
            except BlockingIOError:
                self._wait([connection])

    def _ready(self, streams: list[_Stream]) -> list[_Stream]:
        writable = self._wait([stream.connection for stream in streams])
        return [stream for stream in streams if stream.connection in writable]

    def _wait(self, connections: list[DataConnection]) -> list[DataConnection]:
        until = monotonic() + self._limits.stall_seconds
        return self._channel.wait(connections, POLLOUT, until, self._late)
