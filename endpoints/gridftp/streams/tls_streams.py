"""A data connection in clear or with TLS. asyncio's own TLS cannot end one direction alone, as MODE S needs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from typing import NamedTuple, Protocol

from endpoints.gridftp.connection import keep_alive
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.wire.fenced_socket import connect

#: Octets that are read at a time, and buffered for a slow reader.
PIECE = 256 * 1024


class TlsClient(NamedTuple):
    """TLS of a data connection to a server that is known from its control connection (RFC 4217 section 10).

    session: of the control connection, which servers want to see again. certificate: what the server must show, in DER.
    """

    context: ssl.SSLContext
    host_name: str | None = None
    session: ssl.SSLSession | None = None
    certificate: bytes | None = None


class ClientDataConnection:
    """A connected socket. Raises OSError (ssl.SSLError too)."""

    #: Octets that have come and that were given to the system or to ssh.
    received = sent = 0

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int, tls: TlsClient | ssl.SSLContext | None) -> ClientDataConnection:
        """tls: None: in clear."""
        return await cls.on(*await connected(host, port), tls)

    @classmethod
    async def on(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: TlsClient | ssl.SSLContext | None
    ) -> ClientDataConnection:
        """`open` for a connection that was made before."""
        if tls is None:
            return cls(reader, writer)
        connection = _TlsConnection(reader, writer, tls if isinstance(tls, TlsClient) else TlsClient(tls))
        try:
            await connection.shake_hands()
        except BaseException:
            connection.abort()
            raise
        return connection

    async def read(self) -> bytes:
        """b"" at the end."""
        data = await self._reader.read(PIECE)
        self.received += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Waits while too much is buffered."""
        await self._write(data)

    async def _write(self, octets: bytes) -> None:
        self._writer.write(octets)
        self.sent += len(octets)
        await self._writer.drain()

    async def end(self) -> None:
        """Nothing more is sent."""
        self._writer.write_eof()

    @property
    def moved(self) -> int:
        """A number that grows while octets come, or go to the other end, also out of the buffers on this side."""
        return self.received + self.sent - self._buffered()

    def _buffered(self) -> int:
        """Octets that the other end has not acknowledged, as far as the system reports it (tcp(7), SIOCOUTQ)."""
        transport = self._writer.transport
        return transport.get_write_buffer_size() + _queued(transport.get_extra_info("socket"))

    def abort_if_refused(self, answer: asyncio.Future[Reply]) -> None:
        """A server that refuses the command may leave the data connection open, and silent."""

        def answered(done: asyncio.Future[Reply]) -> None:
            if not done.cancelled() and (done.exception() or done.result().is_error):
                self.abort()

        answer.add_done_callback(answered)

    def abort(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()
        self._writer.close()


class RelayedData(Protocol):
    """One data connection to which both ends connect. token: for SITE WAYBILL DATA to the server."""

    token: str

    async def open(self) -> ClientDataConnection:
        """Our end, once the server has connected to its own. Raises FaultError, OSError."""


class _TlsConnection(ClientDataConnection):
    """TLS as the end that connects."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: TlsClient) -> None:
        super().__init__(reader, writer)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.context.wrap_bio(
            self._incoming, self._outgoing, server_hostname=tls.host_name, session=tls.session
        )
        self._certificate = tls.certificate

    async def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                if self._certificate is not None and self._tls.getpeercert(binary_form=True) != self._certificate:
                    raise ConnectionRefusedError("the data connection has another certificate than the control channel")
                return await self._flush()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._receive():
                    raise ConnectionResetError("the server closed the data connection during the handshake") from None

    async def read(self) -> bytes:
        while True:
            try:
                return self._tls.read(PIECE)
            except ssl.SSLWantReadError:
                # The toolkit's server ends the connection without the end of TLS: callers check the length.
                if not await self._receive():
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes) -> None:
        self._tls.write(data)
        await self._flush()

    async def end(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        await self._flush()
        await super().end()

    async def _receive(self) -> bool:
        """Whether there was more."""
        data = await super().read()
        self._incoming.write(data)
        return bool(data)

    async def _flush(self) -> None:
        await self._write(self._outgoing.read())


async def connected(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TCP connection for data. Raises OSError."""
    sock = await connect(host, port)
    try:
        reader, writer = await asyncio.open_connection(sock=sock, limit=PIECE)
    except BaseException:
        sock.close()
        raise
    keep_alive(writer.transport)
    return reader, writer


def _queued(sock: object) -> int:
    """Octets in the system's send buffer; 0 where it does not report them."""
    if sys.platform != "linux" or sock is None:
        return 0
    import fcntl
    import termios

    with contextlib.suppress(OSError, AttributeError, ValueError):
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))  # type: ignore[attr-defined]
        return int.from_bytes(answer, sys.byteorder)
    return 0
