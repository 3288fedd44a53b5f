"""A client's connection to the web server. No method waits for the client, and a thread gets complete requests only.

The worker's loop calls `step` when the socket is ready, and reads `stage` afterwards. Meanwhile a client can hold a
file descriptor, MAX_HEAD + SMALL_BODY octets of memory, and time (`ClientTimeouts`).

A longer body is not read until the application reads it. The read raises `BodyWanted`, the worker writes the body to a
temporary file, and calls the application again with the complete body. So no long body is read unless the application
has accepted the head, and with it the user. Gunicorn's own parser reads each head: a second parser could disagree.
"""

from __future__ import annotations

import errno
import select
import selectors
import socket
import ssl
import tempfile
import time
from collections import deque
from enum import Enum, auto
from typing import IO, Any, NoReturn, Protocol

from gunicorn.http.body import ChunkedReader  # type: ignore[import-untyped]
from gunicorn.http.message import Request  # type: ignore[import-untyped]
from gunicorn.http.unreader import IterUnreader  # type: ignore[import-untyped]

from endpoints.gridftp.server.strangers import network_of_stranger
from identity.networks import network_of

from .client_timeouts import ClientTimeouts
from .early_answer import EarlyAnswer

#: The most octets of a head; of a body that is read before the application is called; of any body; of one read.
MAX_HEAD, SMALL_BODY, MAX_BODY, READ = 32 << 10, 64 << 10, 256 << 20, 64 << 10
#: The most octets of an answer that wait for the client while the application makes more of it.
MOST_AHEAD = 4 << 20
_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stage(Enum):
    SHAKING = auto()  # TLS begins
    IDLE = auto()  # between two requests
    HEAD = auto()
    BODY = auto()
    WORKING = auto()  # a thread has it
    SENDING = auto()
    CLOSING = auto()  # the answer is sent; whatever the client still sends is discarded
    CLOSED = auto()


class BodyWanted(BaseException):
    """The application reads a body that has not arrived. A BaseException, so that the application does not catch it."""


class _Absent:
    """The body of a request that the application has not read yet."""

    def read(self, *_: object) -> NoReturn:
        raise BodyWanted

    readline = readlines = __iter__ = __next__ = read


def _values(request: Any, name: str) -> tuple[str, ...]:
    """The values of a header. name: as gunicorn spells it, in capitals."""
    return tuple(value for found, value in request.headers if found == name)


class ClientWaits(Protocol):
    """Limits the threads that wait for clients which take long answers slowly."""

    def begin(self, connection: HttpConnection) -> bool:
        """Whether the thread of this connection may wait. If so, the caller must call `end`."""

    def end(self, connection: HttpConnection) -> None: ...


class Outgoing:
    """The socket to which gunicorn writes an answer. Octets that the client does not take at once are buffered.

    A thread waits only where more than MOST_AHEAD octets are buffered: long answers would fill the memory.
    """

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        """Raises OSError when the client is gone."""
        self._connection.put(data)
        self._connection.flush()

    send = sendall

    def gettimeout(self) -> float:
        return 0.0

    def shutdown(self, _: int) -> NoReturn:
        """Gunicorn calls this for an answer that breaks off, and would then wait for the client. The loop does both."""
        raise OSError(errno.EOPNOTSUPP, "the loop does it")

    def close(self) -> None:
        """Gunicorn calls this after `shutdown`."""


class HttpConnection:
    """`sock`, `client` and `server` are attributes of gunicorn's own connections."""

    def __init__(
        self,
        plain: socket.socket,
        client: Any,
        server: Any,
        config: Any,
        timeouts: ClientTimeouts,
        waits: ClientWaits,
    ) -> None:
        plain.setblocking(False)
        self.socket = plain
        self.sock = Outgoing(self)
        self.client, self.server = client, server
        #: The address of the other end, which may be a front server; "" for a unix socket.
        self.address = str(client[0]) if isinstance(client, tuple) else ""
        self.network = network_of(self.address)
        #: The network whose connections are counted together where there are too many.
        self.crowd = network_of_stranger(self.address)
        #: The network of the client that has sent the request. The worker knows whether a front server is between.
        self.client_network = self.network
        #: X-Forwarded-For of the request, not verified.
        self.forwarded = ""
        #: The owner of the request: the user, as the application reports it, or the network.
        self.owner = self.network
        #: A hash of the credentials that the request shows, not verified; 0: it shows none.
        self.credential = 0
        self.request: Any = None
        #: The last answer without the application, and its request, until the worker has noted it.
        self.early: tuple[EarlyAnswer, Any] | None = None
        self.unsent: deque[memoryview] = deque()
        #: Octets in `unsent`.
        self.held = 0
        #: Whether the application has asked for the body that is being read.
        self.wanted = False
        #: Octets of this body in its temporary file.
        self.spooled = 0
        #: The events that the selector is to wait for.
        self.wants = selectors.EVENT_READ
        self._config, self._timeouts, self._waits = config, timeouts, waits
        self._received = bytearray()
        self._requests = 0
        self._body: IO[bytes] | None = None
        #: Octets of the body that have not arrived.
        self.missing = 0
        self._expects = self._keep = False
        self._enter(Stage.HEAD)

    def _enter(self, stage: Stage) -> None:
        """Begin a stage, and its time."""
        self.stage = stage
        self.since = time.monotonic()
        self._moved, self._waited = 0, 0.0
        self.wants = selectors.EVENT_WRITE if stage is Stage.SENDING else selectors.EVENT_READ

    def begin_tls(self, context: ssl.SSLContext) -> None:
        """Raises OSError."""
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._enter(Stage.SHAKING)

    # ---- for the loop

    def step(self) -> None:
        """The socket is ready. Raises OSError when the client is gone, and the errors of gunicorn's parser."""
        try:
            if self.stage is Stage.SHAKING:
                self.socket.do_handshake()  # type: ignore[attr-defined]  # of an SSLSocket
                self._enter(Stage.HEAD)
            elif self.stage is Stage.SENDING:
                self._send()
            elif self.stage is Stage.CLOSING:
                self._receive()
            else:
                self._received += self._receive()
                self._advance()
        except ssl.SSLWantWriteError:
            self.wants = selectors.EVENT_WRITE
        except ssl.SSLWantReadError:
            self.wants = selectors.EVENT_READ
        except BlockingIOError:
            # `_enter` has set the event that a socket without TLS waits for.
            pass

    @property
    def is_unread(self) -> bool:
        """Whether the request has a long body of which nothing was read."""
        return isinstance(self.request.body, _Absent)

    def is_late(self, now: float) -> bool:
        elapsed, timeouts = now - self.since, self._timeouts
        if self.stage in (Stage.BODY, Stage.SENDING):
            return elapsed > timeouts.reading + self._moved / timeouts.slowest
        if self.stage in (Stage.IDLE, Stage.CLOSING):
            return elapsed > (timeouts.idle if self.stage is Stage.IDLE else timeouts.closing)
        return elapsed > timeouts.reading

    def answer_early(self, answer: EarlyAnswer) -> None:
        """Answer without the application. Raises OSError."""
        self.early = answer, self.request
        self._drop_body()
        self.put(answer.octets())
        self.answered(keep=False)

    def close(self) -> None:
        self.stage = Stage.CLOSED
        self._drop_body()
        self._forget_answer()
        self.socket.close()

    # ---- for the application

    def belongs_to(self, user: object) -> None:
        """user: its key, after it was authenticated."""
        self.owner = str(user)

    # ---- after the application

    def answered(self, *, keep: bool) -> None:
        """Send the rest of the answer, then read the next request or close. Raises OSError."""
        self._drop_body()
        self.request, self._keep = None, keep
        self._enter(Stage.SENDING)
        self.step()

    def read_body(self) -> None:
        """Read the body, which the application wants. Raises OSError."""
        self.wanted = True
        self._enter(Stage.BODY)
        self._advance()

    # ---- within

    def _receive(self) -> bytes:
        """Raises OSError, also where the client has closed, and where nothing has arrived."""
        rooms = {Stage.BODY: self.missing, Stage.CLOSING: READ}
        data = self.socket.recv(max(1, min(READ, rooms.get(self.stage, MAX_HEAD - len(self._received)))))
        # The rest of a TLS record is in memory, where no selector sees it.
        while data and isinstance(self.socket, ssl.SSLSocket) and (more := self.socket.pending()):
            data += self.socket.recv(more)
        if not data:
            raise ConnectionResetError("it has closed the connection")
        self._moved += len(data)
        return data

    def _advance(self) -> None:
        """Go on with the octets that have arrived."""
        if self.stage is Stage.IDLE and self._received:
            self._enter(Stage.HEAD)
        if self.stage is Stage.HEAD:
            self._read_head()
        if self.stage is Stage.BODY:
            self._fill()

    def _read_head(self) -> None:
        end = self._received.find(_END) + len(_END)
        if end < len(_END):
            # Gunicorn's parser refuses a line that ends without CR. Such a head might never have the expected end.
            if self._received.count(b"\n") == self._received.count(b"\r\n"):
                if len(self._received) >= MAX_HEAD:
                    self.answer_early(
                        EarlyAnswer("431 Request Header Fields Too Large", f"A head has at most {MAX_HEAD} octets.")
                    )
                return
            end = len(self._received)
        head, self._received = bytes(self._received[:end]), self._received[end:]
        self._requests += 1
        self._take(Request(self._config, IterUnreader([head]), self.client, self._requests))

    def _take(self, request: Any) -> None:
        """Decide how the body of the request is read."""
        if isinstance(request.body.reader, ChunkedReader):
            # The application reads bodies with a Content-Length only (RFC 9112 section 6.3).
            self.answer_early(EarlyAnswer("411 Length Required", "A request with a body needs a Content-Length."))
            return
        self.request, self.missing, self.owner = request, request.body.reader.length, self.network
        self.credential = self._credential_of(request)
        self.forwarded = ",".join(_values(request, "X-FORWARDED-FOR"))
        # Gunicorn would send 100 Continue before the application has accepted the head.
        self._expects, request._expected_100_continue = request._expected_100_continue, False
        if self.missing > SMALL_BODY:
            request.body = _Absent()
            # An answer without the body ends the connection.
            request.force_close()
            self._enter(Stage.WORKING)
        else:
            self._enter(Stage.BODY)

    def _credential_of(self, request: Any) -> int:
        """One kind counts: a token with another cookie beside it is the same client."""
        certificate = self.socket.getpeercert(binary_form=True) if isinstance(self.socket, ssl.SSLSocket) else None
        shown = _values(request, "AUTHORIZATION") or certificate or _values(request, "COOKIE")
        return hash(shown) if shown else 0

    def _fill(self) -> None:
        """Move the received octets into the body. A complete request goes to a thread."""
        if self._body is None:
            self._body = tempfile.SpooledTemporaryFile(max_size=SMALL_BODY)  # noqa: SIM115 - closed by `_drop_body`
            self._go_ahead()
        part, self._received = self._received[: self.missing], self._received[self.missing :]
        self._body.write(part)
        self.missing -= len(part)
        self.spooled += len(part) if self.wanted else 0
        if not self.missing:
            self._body.seek(0)
            self.request.body = self._body
            self._enter(Stage.WORKING)

    def _go_ahead(self) -> None:
        """Send 100 Continue to a client that waits for it (RFC 9110 section 10.1.1). Raises OSError."""
        if self._expects and self.missing > len(self._received):
            self.sock.sendall(_CONTINUE)
            if self.unsent:
                raise ConnectionResetError("it takes nothing")

    def _drop_body(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body, self.wanted, self.spooled = None, False, 0

    def _send(self) -> None:
        self._push()
        if self._keep:
            self._enter(Stage.IDLE)
            self._advance()
        else:
            # End the answer rather than reset the connection: a reset could overtake the answer (RFC 9112 section 9.6).
            self.socket.shutdown(socket.SHUT_WR)
            self._received.clear()
            self._enter(Stage.CLOSING)

    # ---- what is to be sent

    def put(self, data: bytes) -> None:
        self.unsent.append(memoryview(data))
        self.held += len(data)

    def _forget_answer(self) -> None:
        self.unsent.clear()
        self.held = 0

    def flush(self) -> None:
        """Send the octets that the socket takes at once. In a thread, with much left, wait for the client and repeat.

        Raises OSError.
        """
        needs = self._push_some()
        if self.stage is Stage.WORKING and self.held > MOST_AHEAD and self._waits.begin(self):
            try:
                while self.held > MOST_AHEAD:
                    self._wait_for_client(needs)
                    needs = self._push_some()
            finally:
                self._waits.end(self)

    def _push_some(self) -> int:
        """Send some, and return the event of `poll` after which more can be sent. Raises OSError."""
        try:
            self._push()
        except ssl.SSLWantReadError:
            return select.POLLIN
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        return select.POLLOUT

    def _wait_for_client(self, needs: int) -> None:
        """Wait in a thread that has this connection. Raises ConnectionResetError where the client is too slow."""
        left = self._timeouts.reading + self._moved / self._timeouts.slowest - self._waited
        begun = time.monotonic()
        poll = select.poll()
        poll.register(self.socket, needs)
        if left <= 0 or not poll.poll(left * 1000):
            self._forget_answer()
            raise ConnectionResetError(errno.ECONNRESET, "the client takes its answer too slowly")
        self._waited += time.monotonic() - begun

    def _push(self) -> None:
        """Raises OSError, also where the socket takes no more at present."""
        while self.unsent:
            sent = self.socket.send(self.unsent[0][:READ])
            self._moved += sent
            self.held -= sent
            self.unsent[0] = self.unsent[0][sent:]
            if not self.unsent[0]:
                self.unsent.popleft()
