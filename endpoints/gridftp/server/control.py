"""The control channel of one session: octets in, lines out to the worker, with every bound that a stranger needs."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import cast

from .outbox import Outbox
from .session import Service, Session

_GREETING = b"220 Waybill GridFTP server ready.\r\n"
_NOT_YOURS = b"421 Only the account that runs this server is served.\r\n"
_TOO_LONG = b"500 Command line too long: closing control connection.\r\n"
#: Between two looks whether the worker has caught up.
_LOOK_AGAIN_SECONDS = 0.01
_IDLE = b"421 Idle Timeout: closing control connection.\r\n"
_NO_LOGIN = b"421 No login in time: closing control connection.\r\n"


class ControlProtocol(asyncio.Protocol):
    """admit: takes this protocol of a client's address into the server's books, or says why not. release: out of them,
    called from any thread."""

    def __init__(
        self,
        service: Service,
        admit: Callable[[ControlProtocol, str], str],
        release: Callable[[ControlProtocol], None],
    ) -> None:
        self.session: Session | None = None
        self._service = service
        self._limits = service.limits
        self._admit = admit
        self._release = release
        self._loop = asyncio.get_running_loop()
        self._partial = b""
        self._paused = False
        self._last_activity = self._login_began = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._outbox: Outbox

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._service.admits(self._transport.get_extra_info("socket")):
            self._refuse(_NOT_YOURS)
            return
        # None: it has gone already.
        client = self._transport.get_extra_info("peername") or ("0.0.0.0",)  # noqa: S104 - no address to listen at
        if why_not := self._admit(self, str(client[0])):
            self._refuse(f"421 {why_not}, try again later.\r\n".encode())
            return
        self._outbox = Outbox(self._loop, self._transport, self._limits.reply_seconds)
        self.session = Session(self._service, self._outbox, self._own_host(), lambda: self._release(self))
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._transport.write(_GREETING)
        self.session.start()
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.session is None:
            return
        self._last_activity = self._loop.time()
        *lines, rest = (self._partial + data).split(b"\n") if self._partial else data.split(b"\n")
        self._partial = rest
        if len(rest) > self._limits.line or any(len(line) > self._limits.line for line in lines):
            self._end(_TOO_LONG)
            return
        for line in lines:
            self.session.feed(line[:-1] if line.endswith(b"\r") else line)
        if self.session.backlog > 1 and not self._paused:
            self._paused = True
            self._transport.pause_reading()
            self._loop.call_later(_LOOK_AGAIN_SECONDS, self._resume)

    def eof_received(self) -> None:
        """A client that sends no more is taken for gone: nobody must write on for it."""
        if self.session:
            self._end(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self.session:
            self._outbox.set_room(True)
            self.session.hang_up()

    def pause_writing(self) -> None:
        self._outbox.set_room(False)

    def resume_writing(self) -> None:
        self._outbox.set_room(True)

    # ---- inside

    def hang_up(self) -> None:
        """The server stops."""
        self._transport.abort()

    def _refuse(self, farewell: bytes) -> None:
        self._transport.write(farewell)
        self._transport.close()

    def _end(self, farewell: bytes) -> None:
        """Say why, and end it with what is at work."""
        assert self.session is not None
        self._outbox.finish(farewell)
        self.session.hang_up()

    def _resume(self) -> None:
        """Read on when the worker has caught up by half."""
        if self._transport.is_closing() or self.session is None:
            return
        if self.session.backlog > 0.5:
            self._loop.call_later(_LOOK_AGAIN_SECONDS, self._resume)
        else:
            self._paused = False
            self._transport.resume_reading()

    def _watch(self) -> None:
        assert self.session is not None
        limits, now = self._limits, self._loop.time()
        if self.session.busy:
            self._last_activity = now
        if self.session.logged_in:
            self._login_began = now
            end, farewell = self._last_activity + limits.idle_seconds, _IDLE
        else:
            # Commands that need no login do not put it off.
            end, farewell = self._login_began + limits.login_seconds, _NO_LOGIN
        if end <= now:
            self._end(farewell)
        else:
            self._timer = self._loop.call_later(min(end - now, limits.login_seconds) + 0.001, self._watch)

    def _own_host(self) -> str:
        """Our address as the client reached it; IPv4 also where the socket is an IPv6 one that takes both."""
        host = str(self._transport.get_extra_info("sockname")[0]).partition("%")[0]
        mapped = getattr(ipaddress.ip_address(host), "ipv4_mapped", None)
        return str(mapped or host)
