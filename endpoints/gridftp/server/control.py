"""The control channel of one session: octets in, lines to the worker, with the limits against hostile clients."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from typing import cast

from .disconnects import DisconnectWatch
from .errors import WireError
from .outbox import Outbox
from .session import ServerSession, Service
from .wires import ClearWire
from .worker import AUTHENTICATION, SessionWorker

_GREETING = b"220 Waybill GridFTP server ready.\r\n"
_NOT_YOURS = b"421 Only the account that runs this server is served.\r\n"
#: Between two checks of the worker's backlog.
_LOOK_AGAIN_SECONDS = 0.01
_IDLE = b"421 Idle Timeout: closing control connection.\r\n"
_NO_LOGIN = b"421 No login in time: closing control connection.\r\n"


class ControlProtocol(asyncio.Protocol):
    """admit: adds this protocol and its client's address to the server's sessions; returns "" or why not.
    release: removes it; called from any thread. own_host: None for a client that has connected by itself; else the
    program has let it in (`GridFtpServer.serve_socket`), and this is our address for its data connections."""

    def __init__(
        self,
        service: Service,
        admit: Callable[[ControlProtocol, str], str],
        release: Callable[[ControlProtocol], None],
        own_host: str | None = None,
    ) -> None:
        self.worker: SessionWorker | None = None
        self._service = service
        self._limits = service.limits
        self._admit = admit
        self._release = release
        self._own_host = own_host
        self._loop = asyncio.get_running_loop()
        self._wire = ClearWire(self._limits.line)
        #: Octets that arrived after AUTH or ADAT, before its answer.
        self._held: bytes | None = None
        self._paused = False
        self._last_activity = self._login_began = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._outbox: Outbox

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        vouched = self._own_host is not None
        if not (vouched or self._service.admits(self._transport.get_extra_info("socket"))):
            self._refuse(_NOT_YOURS)
            return
        if why_not := self._admit(self, "" if vouched else self._client()):
            self._refuse(f"421 {why_not}, try again later.\r\n".encode())
            return
        self._outbox = Outbox(self._loop, self._transport, self._limits.reply_seconds)
        session = ServerSession(self._service, self._outbox, self._local_host(), vouched=vouched)
        sock = self._transport.get_extra_info("socket")
        self.worker = SessionWorker(
            session, self._outbox, DisconnectWatch(sock).has_disconnected, lambda: self._release(self), self._answered
        )
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._transport.write(_GREETING)
        self.worker.start()
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.worker is None:
            return
        self._last_activity = self._loop.time()
        if self._held is not None:
            self._held += data
            return
        try:
            lines = self._wire.lines(data)
        except WireError as error:
            self._end(f"{error}\r\n".encode() if str(error) else b"")
            return
        self._feed(lines)
        if self.worker.backlog > 1 and not self._paused:
            self._paused = True
            self._transport.pause_reading()
            self._loop.call_later(_LOOK_AGAIN_SECONDS, self._resume)

    def _feed(self, lines: list[bytes]) -> None:
        assert self.worker is not None
        for number, line in enumerate(lines, 1):
            line = line[:-1] if line.endswith(b"\r") else line
            self.worker.feed(line)
            if line[:5].rstrip().upper() in AUTHENTICATION:
                # The rest may be of another form: it is kept until the answer, and no more is read.
                self._held = b"\n".join([*lines[number:], self._wire.take_rest()])
                self._transport.pause_reading()
                return

    def _answered(self, wire: ClearWire | None) -> None:
        """AUTH or ADAT is answered: go on, in a new form if there is one."""
        if wire is not None:
            self._wire = wire
            self._outbox.use(wire)
        held, self._held = self._held, None
        if self._transport.is_closing():
            return
        if not self._paused:
            self._transport.resume_reading()
        if held:
            self.data_received(held)

    def eof_received(self) -> None:
        """A client that closes its sending side counts as gone: its transfers must end (`disconnects`)."""
        if self.worker:
            self._end(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self.worker:
            self._outbox.set_room(True)
            self.worker.hang_up()

    def pause_writing(self) -> None:
        self._outbox.set_room(False)

    def resume_writing(self) -> None:
        self._outbox.set_room(True)

    # ---- inside

    @property
    def logged_in(self) -> bool:
        return self.worker is not None and self.worker.session.logged_in

    def hang_up(self) -> None:
        """End the session: the server stops, or others need the place."""
        self._transport.abort()

    def _refuse(self, farewell: bytes) -> None:
        self._transport.write(farewell)
        self._transport.close()

    def _end(self, farewell: bytes) -> None:
        """Send the reason, and end the session with its running command."""
        assert self.worker is not None
        self._outbox.finish(farewell)
        self.worker.hang_up()

    def _resume(self) -> None:
        """Resume reading when the backlog is below a half."""
        if self._transport.is_closing() or self.worker is None:
            return
        if self.worker.backlog > 0.5:
            self._loop.call_later(_LOOK_AGAIN_SECONDS, self._resume)
        else:
            self._paused = False
            if self._held is None:
                self._transport.resume_reading()

    def _watch(self) -> None:
        assert self.worker is not None
        limits, now = self._limits, self._loop.time()
        if self.worker.busy:
            self._last_activity = now
        if self.worker.session.logged_in:
            self._login_began = now
            end, farewell = self._last_activity + limits.idle_seconds, _IDLE
        else:
            # Commands without login do not extend this time.
            end, farewell = self._login_began + limits.login_seconds, _NO_LOGIN
        if end <= now:
            self._end(farewell)
        else:
            self._timer = self._loop.call_later(min(end - now, limits.login_seconds) + 0.001, self._watch)

    def _client(self) -> str:
        # None: the client has disconnected already.
        client = self._transport.get_extra_info("peername") or ("0.0.0.0",)  # noqa: S104 - no address to listen at
        return str(client[0])

    def _local_host(self) -> str:
        """The address that the client connected to; IPv4 also on an IPv6 socket that accepts both."""
        if self._own_host is not None:
            return self._own_host
        host = str(self._transport.get_extra_info("sockname")[0]).partition("%")[0]
        mapped = getattr(ipaddress.ip_address(host), "ipv4_mapped", None)
        return str(mapped or host)
