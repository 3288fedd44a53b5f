"""One client's connection to the web server. Nothing here waits for the client, and a thread sees whole requests only.

The worker's loop calls `step` when the socket is ready, and looks at `stage` afterwards. What a client may hold
meanwhile is a file descriptor, MAX_HEAD + SMALL_BODY octets of memory, and time (`Patience`).

A longer body is not read until the application asks for it. The application then raises `BodyWanted`, the body is
written to a temporary file, and the application is called again with all of it. So nobody's body is read unless the
application has accepted the head, and with it the user. Gunicorn's own parser reads each head: there is no second one
that could disagree with it.
"""

from __future__ import annotations

import errno
import select
import selectors
import socket
import ssl
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import IO, Any, NoReturn

from gunicorn.http.body import ChunkedReader  # type: ignore[import-untyped]
from gunicorn.http.message import Request  # type: ignore[import-untyped]
from gunicorn.http.unreader import IterUnreader  # type: ignore[import-untyped]

from identity.networks import network_of

#: Octets: of the head of a request; of a body that is read before the application is asked; of any body; of one read.
MAX_HEAD, SMALL_BODY, MAX_BODY, READ = 32 << 10, 64 << 10, 256 << 20, 64 << 10
#: Octets of an answer that may wait for the client while the application makes more of it.
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
    CLOSING = auto()  # the answer is sent; what the client still sends is thrown away
    CLOSED = auto()


class BodyWanted(BaseException):
    """The application reads a body that is not here yet. No `Exception`, so that it leaves the application."""


class _Absent:
    """The body of a request that nobody has asked for."""

    def read(self, *_: object) -> NoReturn:
        raise BodyWanted

    readline = readlines = __iter__ = __next__ = read


@dataclass(frozen=True)
class Patience:
    """Seconds and octets a second that clients are given.

    reading: for a head, or a TLS handshake; also before the rate of a body or an answer counts. idle: between two
    requests. closing: to take the end of an answer.
    """

    reading: float
    slowest: int
    idle: float
    closing: float = 2.0


class Outgoing:
    """What gunicorn writes an answer to. What the client does not take at once waits here, and not in a thread.

    Of an answer longer than MOST_AHEAD the thread waits, or it would be whole in memory.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        """Raises OSError when the client is gone."""
        self._connection.put(data)
        self._connection.flush()

    send = sendall

    def gettimeout(self) -> float:
        return 0.0

    def shutdown(self, _: int) -> NoReturn:
        """Gunicorn ends an answer that breaks off, and would then wait for the client: the loop does both."""
        raise OSError(errno.EOPNOTSUPP, "the loop does it")

    def close(self) -> None:
        """After `shutdown`."""


class Connection:
    """`sock`, `client` and `server` are what gunicorn expects of its own."""

    def __init__(
        self,
        plain: socket.socket,
        client: Any,
        server: Any,
        config: Any,
        patience: Patience,
        waits: threading.Semaphore,
    ) -> None:
        """waits: for as many threads as may wait for clients that take long answers."""
        plain.setblocking(False)
        self.socket = plain
        self.sock = Outgoing(self)
        self.client, self.server = client, server
        self.network = network_of(client[0]) if isinstance(client, tuple) else ""
        #: Who has the request that it carries: the user, as the application says, or the network.
        self.owner = self.network
        self.request: Any = None
        self.unsent: deque[memoryview] = deque()
        #: Octets in it.
        self.held = 0
        #: Whether the application has asked for the body that is being read.
        self.wanted = False
        #: Octets of such a body that are in its temporary file.
        self.spooled = 0
        #: What the selector is to wait for.
        self.wants = selectors.EVENT_READ
        self._config, self._patience, self._waits = config, patience, waits
        self._received = bytearray()
        self._requests = 0
        self._body: IO[bytes] | None = None
        self._missing = 0
        self._expects = self._keep = False
        self._enter(Stage.HEAD)

    def _enter(self, stage: Stage) -> None:
        """The time of a stage begins with it."""
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
        """The socket is ready. Raises OSError when the client is gone, and what gunicorn's parser raises."""
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
            # `_enter` has named what a socket without TLS waits for.
            pass

    def is_late(self, now: float) -> bool:
        elapsed, patience = now - self.since, self._patience
        if self.stage in (Stage.BODY, Stage.SENDING):
            return elapsed > patience.reading + self._moved / patience.slowest
        if self.stage in (Stage.IDLE, Stage.CLOSING):
            return elapsed > (patience.idle if self.stage is Stage.IDLE else patience.closing)
        return elapsed > patience.reading

    def refuse(self, status: str, message: str) -> None:
        """Answer without the application. Raises OSError."""
        self._drop_body()
        text = message.encode()
        head = (
            f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        self.put(head.encode() + text)
        self.answered(keep=False)

    def close(self) -> None:
        self.stage = Stage.CLOSED
        self._drop_body()
        self._forget_answer()
        self.socket.close()

    # ---- for the application

    def belongs_to(self, user: object) -> None:
        """user: its key, once it is proven."""
        self.owner = str(user)

    # ---- after the application

    def answered(self, *, keep: bool) -> None:
        """Send the rest of the answer, then hear the next request or close. Raises OSError."""
        self._drop_body()
        self.request, self._keep = None, keep
        self._enter(Stage.SENDING)
        self.step()

    def read_body(self) -> None:
        """The application wants it. Raises OSError."""
        self.wanted = True
        self._enter(Stage.BODY)
        self._advance()

    # ---- within

    def _receive(self) -> bytes:
        """Raises OSError, also at the end of what the client sends, and where nothing has come yet."""
        rooms = {Stage.BODY: self._missing, Stage.CLOSING: READ}
        data = self.socket.recv(max(1, min(READ, rooms.get(self.stage, MAX_HEAD - len(self._received)))))
        # Of a TLS record the rest is in memory, where no selector sees it.
        while data and isinstance(self.socket, ssl.SSLSocket) and (more := self.socket.pending()):
            data += self.socket.recv(more)
        if not data:
            raise ConnectionResetError("it has hung up")
        self._moved += len(data)
        return data

    def _advance(self) -> None:
        """With what has come so far."""
        if self.stage is Stage.IDLE and self._received:
            self._enter(Stage.HEAD)
        if self.stage is Stage.HEAD:
            self._read_head()
        if self.stage is Stage.BODY:
            self._fill()

    def _read_head(self) -> None:
        end = self._received.find(_END) + len(_END)
        if end < len(_END):
            # Gunicorn's parser refuses a line that ends without CR, and would wait for the other end in vain.
            if self._received.count(b"\n") == self._received.count(b"\r\n"):
                if len(self._received) >= MAX_HEAD:
                    self.refuse("431 Request Header Fields Too Large", f"A head has at most {MAX_HEAD} octets.")
                return
            end = len(self._received)
        head, self._received = bytes(self._received[:end]), self._received[end:]
        self._requests += 1
        self._take(Request(self._config, IterUnreader([head]), self.client, self._requests))

    def _take(self, request: Any) -> None:
        """Decide how its body is read."""
        if isinstance(request.body.reader, ChunkedReader):
            # RFC 9112 section 6.3: the application knows a body by its Content-Length only.
            self.refuse("411 Length Required", "A request with a body needs a Content-Length.")
            return
        self.request, self._missing, self.owner = request, request.body.reader.length, self.network
        # Gunicorn would answer it before the application has accepted the head.
        self._expects, request._expected_100_continue = request._expected_100_continue, False
        if self._missing > MAX_BODY:
            self.refuse("413 Content Too Large", f"A body has at most {MAX_BODY} octets.")
        elif self._missing > SMALL_BODY:
            request.body = _Absent()
            # Where the answer comes without the body, the connection ends after it.
            request.force_close()
            self._enter(Stage.WORKING)
        else:
            self._enter(Stage.BODY)

    def _fill(self) -> None:
        """Move what has come into the body; when it is whole, a thread may have the request."""
        if self._body is None:
            self._body = tempfile.SpooledTemporaryFile(max_size=SMALL_BODY)  # noqa: SIM115 - closed by `_drop_body`
            self._go_ahead()
        part, self._received = self._received[: self._missing], self._received[self._missing :]
        self._body.write(part)
        self._missing -= len(part)
        self.spooled += len(part) if self.wanted else 0
        if not self._missing:
            self._body.seek(0)
            self.request.body = self._body
            self._enter(Stage.WORKING)

    def _go_ahead(self) -> None:
        """To a client that waits for it (RFC 9110 section 10.1.1). Raises OSError."""
        if self._expects and self._missing > len(self._received):
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
            # An end of the answer, rather than a reset that could overtake it (RFC 9112 section 9.6).
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
        """Send what the socket takes at once, and more where a thread has the connection and much is left.

        Raises OSError.
        """
        needs = self._push_some()
        if self.stage is Stage.WORKING and self.held > MOST_AHEAD and self._waits.acquire(blocking=False):
            try:
                while self.held > MOST_AHEAD:
                    self._wait_for_client(needs)
                    needs = self._push_some()
            finally:
                self._waits.release()

    def _push_some(self) -> int:
        """What `poll` is to wait for before more can be sent. Raises OSError."""
        try:
            self._push()
        except ssl.SSLWantReadError:
            return select.POLLIN
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        return select.POLLOUT

    def _wait_for_client(self, needs: int) -> None:
        """In a thread, which has the connection alone. Raises ConnectionResetError for one that is too slow."""
        left = self._patience.reading + self._moved / self._patience.slowest - self._waited
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
