"""HTTP/1.1 over TLS on one connection (RFC 9112), for an object store: one request at a time, bounded in time and size.

h11 is the state machine; the socket is ours, so that the fence holds. The address has passed the gate, and nothing here
looks up a name, follows a redirect or uses a proxy. A body that ends early, or has no certain end, is a fault.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import h11

from endpoints.gridftp.connection import CONNECT_TIMEOUT, STALL_TIMEOUT, LateLoginError, session_fault
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.ftp_tls import certificate
from endpoints.gridftp.ftp_tls.login import NoteKey, ServerKeyError, key_of
from endpoints.gridftp.streams.file_streams import PIECE
from endpoints.gridftp.wire.fence import FenceClosedError
from endpoints.gridftp.wire.fenced_socket import FencedSocket, connect
from identity.gsi.printable import error_text

_T = TypeVar("_T")
#: Octets of the headers of an answer.
MAX_HEAD = 64 * 1024
#: The usual size of a body that is no file: a page of 1,000 keys has less.
MAX_BODY = 16 * 2**20


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A store. host: an address that has passed the gate. name: as registered, for which its certificate must be.

    pin: the fingerprint of its certificate's key, which then counts in place of authorities and name; None: none does,
    and nothing may be sent. authorities: a folder of certificate authorities beside those of the system.
    note_key: takes the key that the server has shown in place of the registered one.
    """

    host: str
    port: int
    name: str
    pin: str | None = ""
    authorities: Path | None = None
    note_key: NoteKey | None = field(default=None, repr=False, compare=False)

    @property
    def host_header(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == 443 else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The beginning of an answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]

    @property
    def length(self) -> int | None:
        """The announced octets of the body; h11 has checked that it is a number."""
        return int(self.headers["content-length"]) if "content-length" in self.headers else None


class HttpConnection:
    """Every method raises FaultError; after one the connection cannot be used any more."""

    def __init__(self, wire: FencedSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.wire = wire
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        #: Whether a request was answered on it before: a server may have closed it meanwhile.
        self.used = False
        #: Whether an octet of the answer under way has come.
        self.answering = False
        self.idle_since = 0.0

    @classmethod
    async def open(cls, address: StoreAddress, timeout: float = CONNECT_TIMEOUT) -> Self:
        """Connect by TLS. Nothing of the user's is sent before the certificate is judged."""
        connection = await cls._connected(address, timeout)
        found = key_of(connection.certificate) if address.pin else ""
        if address.pin and found != address.pin:
            connection.abort()
            if address.note_key:
                await asyncio.to_thread(address.note_key, found)
            raise ServerKeyError(address.pin, found)
        return connection

    @classmethod
    async def _connected(cls, address: StoreAddress, timeout: float) -> Self:
        pinned = address.pin != ""
        try:
            async with asyncio.timeout(timeout):
                context = await asyncio.to_thread(certificate.context, address.authorities, pinned=pinned)
                wire = await connect(address.host, address.port)
                try:
                    reader, writer = await asyncio.open_connection(
                        sock=wire, ssl=context, server_hostname=address.name, limit=2 * PIECE
                    )
                except BaseException:
                    wire.close()
                    raise
        except TimeoutError:
            raise LateLoginError(f"no connection by TLS within {timeout:g} s", unanswered=False) from None
        except ssl.SSLCertVerificationError as error:
            named = error.verify_code in certificate.NAME_MISMATCHES
            kind = Kind.GSI_DN_MISMATCH if named else Kind.INVALID_SERVICE_CREDENTIAL
            raise FaultError(make_fault(kind, error.verify_message)) from None
        except ssl.SSLError as error:
            raise FaultError(make_fault(Kind.INSECURE_SERVER, f"TLS: {error_text(error)}")) from None
        except OSError as error:
            raise FaultError(session_fault(Kind.CONNECT_FAILED, error_text(error), FaultScope.ENDPOINT)) from None
        return cls(wire, reader, writer)

    @property
    def certificate(self) -> bytes:
        """The server's certificate, in DER."""
        shown: bytes = self._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent: the last answer was read to its end, and the server has not closed."""
        return (
            self._state.our_state is h11.IDLE
            and self._state.their_state is h11.IDLE
            and not (self._reader.at_eof() or self._writer.is_closing() or self.wire.fenced_off)
        )

    def abort(self) -> None:
        """Close at once: a body that is not complete is none."""
        self._writer.transport.abort()

    # ---- a request

    async def begin(self, method: str, target: str, headers: Mapping[str, str]) -> None:
        """Send the head of a request. headers: with "host", and with "content-length" where a body follows."""
        self.answering = False
        await self._send(h11.Request(method=method, target=target, headers=list(headers.items())))

    async def send(self, data: bytes) -> None:
        """Send the next octets of the body; waits while too many are in the buffer."""
        for start in range(0, len(data), PIECE):
            await self._send(h11.Data(data=data[start : start + PIECE]))

    async def end(self) -> None:
        """The body is complete."""
        await self._send(h11.EndOfMessage())

    async def head(self, stall_seconds: float = STALL_TIMEOUT) -> AnswerHead:
        """Wait for the head of the answer. stall_seconds: seconds without an octet."""
        while True:
            event = await self._next(stall_seconds)
            if isinstance(event, h11.Response):
                break
            if not isinstance(event, h11.InformationalResponse):
                raise FaultError(session_fault(Kind.CONNECTION_BROKEN, "the connection ended before an answer"))
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
        return AnswerHead(event.status_code, headers)

    async def body(self) -> bytes:
        """The next octets of the answer's body, a piece at most; b"" at its certain end."""
        event = await self._next(STALL_TIMEOUT)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise FaultError(session_fault(Kind.CONNECTION_BROKEN, "the connection ended inside an answer"))
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
            self.used = True
        return b""

    async def whole_body(self) -> bytes:
        """A body that is no file. Raises FaultError, too, where it is too long, or has no certain end."""
        parts, octets = [], 0
        while data := await self.body():
            octets += len(data)
            if octets > MAX_BODY:
                raise FaultError(session_fault(Kind.ENDPOINT_ERROR, f"an answer of more than {MAX_BODY} octets"))
            parts.append(data)
        return b"".join(parts)

    # ---- inside

    async def _send(self, event: h11.Event) -> None:
        try:
            octets = self._state.send(event)
        except h11.LocalProtocolError as error:
            raise FaultError(make_fault(Kind.INTERNAL_ERROR, error_text(error))) from None
        if octets:
            self._writer.write(octets)
            await self._within(self._writer.drain(), STALL_TIMEOUT)

    async def _next(self, stall_seconds: float) -> object:
        """The next event of h11."""
        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                data = await self._within(self._reader.read(PIECE), stall_seconds)
                self.answering = self.answering or bool(data)
                self._state.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise FaultError(session_fault(Kind.CONNECTION_BROKEN, f"HTTP: {error_text(error)}")) from None
        return event

    async def _within(self, work: Awaitable[_T], seconds: float) -> _T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise FaultError(session_fault(Kind.TIMEOUT, f"nothing moved for {seconds:g} s")) from None
        except FenceClosedError as error:
            raise FaultError(session_fault(Kind.CONNECTION_BROKEN, str(error))) from None
        except OSError as error:  # ssl.SSLError too
            raise FaultError(session_fault(Kind.CONNECTION_RESET, error_text(error))) from None
