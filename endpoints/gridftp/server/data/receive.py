"""Receiving a file: from data connections to the disk, by splice where possible, without a copy in this process."""

from __future__ import annotations

import errno
import os
from time import monotonic
from typing import Any

from endpoints.gridftp.server.errors import DataError
from endpoints.gridftp.server.limits import ServerLimits
from endpoints.gridftp.server.polling import POLLIN
from endpoints.gridftp.server.positions import write_at

from .channel import DataChannel
from .connection import READ_AHEAD, DataConnection
from .mode_e import CLOSE, EOD, EOF, Header, HeaderError, Payload
from .progress import MarkerWriter

try:
    import fcntl
except ImportError:  # Windows, which has no splice either
    fcntl = None  # type: ignore[assignment]

#: Octets below which a plain read is cheaper than two splices.
_SPLICE_MIN = 64 * 1024
#: Octets of the pipe; an ordinary user's maximum (pipe-max-size).
_PIPE_SIZE = 1024 * 1024
_F_SETPIPE_SZ = 1031
_TAKES_IN_TURN = 8
#: Octets of a worker's buffer, for data that is not spliced.
BUFFER_SIZE = 4 * READ_AHEAD
#: splice(2): Linux, from Python 3.10 on.
_splice: Any = getattr(os, "splice", None)
_CANNOT_SPLICE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Pipe:
    """The pipe through which spliced octets pass. Empty between two calls, or closed."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        try:
            assert fcntl is not None
            self.size = fcntl.fcntl(self._in, _F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            self.size = _SPLICE_MIN

    def take(self, sock: int, most: int) -> int:
        """Octets from a socket into the pipe; 0 at its end. Raises BlockingIOError."""
        taken: int = _splice(sock, self._in, min(most, self.size))
        return taken

    def give(self, fd: int, length: int, offset: int) -> int:
        given: int = _splice(self._out, fd, length, offset_dst=offset)
        return given

    def drain(self, length: int) -> bytes:
        """Read the octets that could not be written to the file."""
        return os.read(self._out, length)

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


class Sink:
    """The file being written. Offsets are those of the transfer; the offset in the file is `shift` (ESTO) more."""

    def __init__(self, fd: int, shift: int, progress: MarkerWriter) -> None:
        self.progress = progress
        #: The offset in the file after the last octet of a MODE S transfer.
        self.end = 0
        self._fd = fd
        self._shift = shift
        self._pipe: Pipe | None = None
        self._can_splice = _splice is not None

    def close(self) -> None:
        if self._pipe:
            self._pipe.close()
            self._pipe = None

    def write(self, offset: int, data: memoryview | bytes) -> None:
        start, view = offset, memoryview(data)
        while view:
            written = write_at(self._fd, view, offset + self._shift)
            offset += written
            view = view[written:]
        self.progress.add(start, offset)

    def wants_splice(self, connection: DataConnection, length: int) -> bool:
        return self._can_splice and not connection.encrypted and length >= _SPLICE_MIN

    def splice(self, connection: DataConnection, offset: int, most: int) -> int:
        """Octets from connection to file; 0 at its end. Raises BlockingIOError, DataError, OSError of the file."""
        if self._pipe is None:
            self._pipe = Pipe()
        try:
            taken = self._pipe.take(connection.fileno(), most)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _CANNOT_SPLICE:
                raise DataError.broken(error) from error
            self._can_splice = False
            raise BlockingIOError from error
        self._empty(taken, offset)
        return taken

    def _empty(self, length: int, offset: int) -> None:
        assert self._pipe is not None
        start, end = offset, offset + length
        while offset < end:
            try:
                offset += self._pipe.give(self._fd, end - offset, offset + self._shift)
            except OSError as error:
                # Some file systems, and files opened for appending, do not support splice.
                if error.errno not in _CANNOT_SPLICE:
                    raise
                self._can_splice = False
                self.progress.add(start, offset)
                while offset < end:
                    piece = self._pipe.drain(end - offset)
                    self.write(offset, piece)
                    offset += len(piece)
                return
        self.progress.add(start, end)


class Receiver:
    """Receives one file from a data channel. `buffer` belongs to the worker, which uses it for every file."""

    def __init__(self, channel: DataChannel, sink: Sink, limits: ServerLimits, buffer: bytearray) -> None:
        self._channel = channel
        self._sink = sink
        self._limits = limits
        self._buffer = memoryview(buffer)
        self._late = DataError(426, "Data connection stalled: timed out without an octet.")
        self._nobody = DataError.not_opened("timed out waiting for a connection")
        self._expected: int | None = None
        self._ended = 0

    # ---- MODE S (RFC 959 section 3.4.1)

    def stream(self, offset: int) -> None:
        """Receive all octets up to the end of the connection, and write them from `offset` on."""
        connection = self._channel.single(sending=False)
        self._sink.end = offset
        while True:
            while (taken := self._take_stream(connection, offset)) is not None:
                if not taken:
                    return
                offset += taken
                self._sink.end = offset
                self._channel.check()
            self._wait([connection])

    def _take_stream(self, connection: DataConnection, offset: int) -> int | None:
        try:
            if self._sink.wants_splice(connection, _PIPE_SIZE):
                return self._sink.splice(connection, offset, _PIPE_SIZE)
            taken = self._read(connection, len(self._buffer))
            self._sink.write(offset, self._buffer[:taken])
            return taken
        except BlockingIOError:
            return None

    # ---- MODE E (GFD.20)

    def blocks(self) -> None:
        """Receive the blocks of one file, from all connections that the sender opens, up to its last EOD."""
        connections = self._channel.incoming()
        for connection in connections:
            connection.begin_file()
        ready = list(connections)
        while True:
            for connection in ready:
                self._turn(connection)
            if self._complete():
                return
            ready = self._wait([connection for connection in connections if not connection.ended])

    def _turn(self, connection: DataConnection) -> None:
        """Do a limited piece of work for one connection, so that all connections make progress."""
        for _ in range(_TAKES_IN_TURN):
            if connection.ended or not self._take_blocks(connection):
                return

    def _complete(self) -> bool:
        if self._expected is None or self._ended < self._expected:
            return False
        if self._ended > self._expected:
            raise DataError(426, f"Not the blocks of MODE E: more than {self._expected} streams have ended.")
        for connection in [connection for connection in self._channel.connections if connection.closing]:
            self._channel.drop(connection)
        return True

    def _take_blocks(self, connection: DataConnection) -> bool:
        """Take the octets that have arrived on this connection; False when there are none."""
        decoder = connection.decoder
        try:
            if connection.rest:
                data, connection.rest = connection.rest, connection.rest[:0]
            elif self._sink.wants_splice(connection, decoder.remaining):
                taken = self._sink.splice(connection, decoder.offset, decoder.remaining)
                if not taken:
                    return self._closed(connection)
                decoder.skip(taken)
                self._end_if_due(connection)
                return True
            else:
                most = len(self._buffer) if connection.encrypted else decoder.remaining
                taken = self._read(connection, max(connection.ahead, min(most, len(self._buffer))))
                if not taken:
                    return self._closed(connection)
                data = self._buffer[:taken]
        except BlockingIOError:
            return False
        self._decode(connection, data)
        return True

    def _decode(self, connection: DataConnection, data: memoryview) -> None:
        connection.touched = True
        decoder, at = connection.decoder, 0
        try:
            while not connection.ended:
                event, at = decoder.step(data, at)
                if event is None:
                    return
                if isinstance(event, Payload):
                    self._sink.write(event.offset, event.data)
                else:
                    self._header(connection, event)
                self._end_if_due(connection)
        except HeaderError as error:
            raise DataError(426, f"Not the blocks of MODE E: {error}.") from error
        if at < len(data):
            # The beginning of the next file. It is copied out of the buffer, unless it was before.
            connection.rest = data[at:] if data.obj is not self._buffer.obj else memoryview(bytes(data[at:]))

    def _header(self, connection: DataConnection, header: Header) -> None:
        connection.expect_large_blocks(self._sink.wants_splice(connection, header.length))
        if header.descriptor & EOF:
            if not 0 < header.offset <= self._limits.streams:
                raise HeaderError(f"{header.offset} streams")
            self._expected = header.offset
        if header.descriptor & EOD:
            connection.ending = True
        if header.descriptor & CLOSE:
            connection.closing = True

    def _end_if_due(self, connection: DataConnection) -> None:
        if connection.ending and not connection.decoder.remaining:
            connection.ended = True
            self._ended += 1

    def _closed(self, connection: DataConnection) -> bool:
        """The end of a connection: allowed between two files if others remain, else the sender has failed."""
        clean = connection.decoder.at_boundary and not connection.touched
        self._channel.drop(connection)
        if not clean or not self._channel.connections:
            raise DataError(426, "An end-of-file was reached on a data connection before the end of the file.")
        return False

    # ---- both

    def _read(self, connection: DataConnection, most: int) -> int:
        try:
            return connection.receive(self._buffer[:most])
        except BlockingIOError:
            raise
        except OSError as error:
            raise DataError.broken(error) from error

    def _wait(self, connections: list[DataConnection]) -> list[DataConnection]:
        if self._channel.connections:
            late, seconds = self._late, self._limits.stall_seconds
        else:
            late, seconds = self._nobody, self._limits.connect_seconds
        until = monotonic() + seconds
        while True:
            wake_at = self._sink.progress.tick(monotonic())
            if ready := self._channel.wait(connections, POLLIN, until, late, wake_at):
                return ready
