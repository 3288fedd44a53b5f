"""One data connection: its socket, in clear or with TLS, and the place of its receiver in the blocks of MODE E."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct

from .mode_e import HEADER_SIZE, BlockDecoder

#: Octets read at once where several small files may follow.
READ_AHEAD = 64 * 1024
#: Octets encrypted by one call: OpenSSL must be given the same again, until it has sent them.
ENCRYPT_SIZE = 128 * 1024
_ABORTIVE = struct.pack("ii", 1, 0)
_NOTHING = memoryview(b"")


class DataConnection:
    """Octets of the next file stay in `rest` until that file's command comes.

    encrypted: the socket is one of TLS, and neither sendfile nor splice may touch it.
    """

    __slots__ = ("_unsent", "ahead", "closing", "decoder", "encrypted", "ended", "ending", "rest", "sock", "touched")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.encrypted = isinstance(sock, ssl.SSLSocket)
        self.decoder = BlockDecoder()
        self.rest = _NOTHING
        #: The sender has announced that it will close this connection.
        self.closing = False
        #: Octets that OpenSSL has begun to send.
        self._unsent = b""
        self.begin_file()

    def begin_file(self) -> None:
        #: EOD has been received; `ending`: it counts when the rest of its block has arrived.
        self.ended = self.ending = False
        #: Octets of this file have arrived on this connection.
        self.touched = False
        #: Octets to read where a header is due: only the header before large blocks, so that they can be spliced.
        self.ahead = READ_AHEAD

    def expect_large_blocks(self, yes: bool) -> None:
        self.ahead = HEADER_SIZE if yes else READ_AHEAD

    def fileno(self) -> int:
        return self.sock.fileno()

    # ---- octets

    @property
    def insists(self) -> bool:
        """Whether the octets of the last `send` must be given again; any others count as those."""
        return bool(self._unsent)

    @property
    def holds_octets(self) -> bool:
        """Whether octets have been decrypted already, which poll(2) does not know of."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def receive(self, buffer: memoryview) -> int:
        """Octets into the buffer; 0 at the end. Raises BlockingIOError, OSError (ssl.SSLError too)."""
        if not isinstance(self.sock, ssl.SSLSocket):
            return self.sock.recv_into(buffer)
        taken = 0
        try:
            # A record has at most 16 KiB: one write to the file for several of them.
            while taken < len(buffer):
                # `recv_into` would do the same by a further call for each record.
                piece: int = self.sock.read(len(buffer) - taken, buffer[taken:])  # type: ignore[assignment]
                if not piece:
                    break
                taken += piece
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not taken:
                raise BlockingIOError from None
        return taken

    def send(self, data: bytes | memoryview) -> int:
        """Send some of the octets. After BlockingIOError the same must be given again. Raises OSError too."""
        if not self.encrypted:
            return self.sock.send(data)
        if not self._unsent:
            whole = isinstance(data, bytes) and len(data) <= ENCRYPT_SIZE
            self._unsent = data if whole else bytes(data[:ENCRYPT_SIZE])  # type: ignore[assignment]
        try:
            sent = self.sock.send(self._unsent)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        self._unsent = self._unsent[sent:]
        return sent

    # ---- the end

    def close(self) -> None:
        """Close it; octets already sent still arrive. TLS says its end first, if there is room for that."""
        if isinstance(self.sock, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self.sock.unwrap()
        self.sock.close()

    def reset(self) -> None:
        """Close by RST: the other side cannot take it for the end of a file."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
        self.sock.close()
