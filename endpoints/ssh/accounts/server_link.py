"""Our server in an account, over one ssh connection: all control channels to it are inside one channel of ssh.

A session costs a round trip, and no login and no process of its own. `SharedLinks` gives the callers of one event loop
the same link.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from endpoints.gridftp.agent.ssh_account import EARLY_CREDIT
from endpoints.gridftp.agent.tunnel import octet_stream
from endpoints.gridftp.agent.tunnel.frames import FrameError
from endpoints.gridftp.agent.tunnel.multiplexer import ChannelHandler, Multiplexer, TunnelChannel
from endpoints.gridftp.wire.put_off import SERVERS
from endpoints.ssh.bounded_connection import BoundedConnection
from endpoints.ssh.message_budget import MessageBudget, TooManyMessagesError

from .offer import AccountOffer
from .remote_program import WINDOW, RemoteProgram

#: Sessions of one link: one process of the account serves them all, and one Python has one processor.
MAX_SESSIONS = 16
_LOST = "the ssh connection has ended"


class ServerLink(asyncio.Protocol):
    """One ssh connection with our server in it; it is closed with its last session."""

    def __init__(self, ssh: BoundedConnection, running: RemoteProgram, found: AccountOffer) -> None:
        self.ssh = ssh
        self.running = running
        self.found = found
        self.sessions: set[ChannelTransport] = set()
        self._unpacker = octet_stream.Unpacker()
        self._transport: asyncio.Transport
        self._channels = Multiplexer(1, self._write, _refuse_channel)
        self._budget = MessageBudget()
        self._budget.logged_in()
        self.lost = ""
        #: Called once.
        self.when_lost: Callable[[], object] = lambda: None

    @property
    def has_room(self) -> bool:
        return not self.lost and len(self.sessions) < MAX_SESSIONS

    def open(self, protocol: asyncio.Protocol) -> ChannelTransport:
        """A control channel for this protocol, which may write at once. Raises ConnectionResetError."""
        if self.lost:
            raise ConnectionResetError(self.lost)
        opened = ChannelTransport(self, protocol)
        self.sessions.add(opened)
        opened.begin(self._channels)
        return opened

    def leave(self, session: ChannelTransport) -> None:
        self.sessions.discard(session)
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if not self.sessions:
            self._lose(_LOST)

    # ---- asyncio.Protocol, on the standard streams of our program

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._unpacker.feed(data):
                self._budget.received(len(frame))
                self._channels.receive(frame)
        except FrameError as error:
            self._lose(f"our server in the account is not itself: {error}")
        except TooManyMessagesError as error:
            SERVERS.note(*self.ssh.server_address, f"our server in the account sent {error}")
            self._lose(f"our server in the account is not itself: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(_LOST)

    def _lose(self, reason: str) -> None:
        if not self.lost:
            self.lost = reason
            self._channels.lose("away", reason)
            self.ssh.abort()
            self.when_lost()

    def _write(self, frame: bytes) -> None:
        if not (self.lost or self._transport.is_closing()):
            self._budget.sent(len(frame))
            self._transport.write(octet_stream.packed(frame))


def _refuse_channel(channel: TunnelChannel, content: object) -> None:
    raise FrameError("it opens a channel")


class ChannelTransport(ChannelHandler, asyncio.Transport):
    """One control channel, for its protocol as a connection.

    The peer may send up to `WINDOW` octets while reading is paused.
    """

    def __init__(self, link: ServerLink, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._link = link
        self._protocol = protocol
        self._channel: TunnelChannel
        self._unsent = bytearray()
        self._taken = 0
        self._paused = self._closed = False

    def begin(self, channels: Multiplexer) -> None:
        self._channel = channels.open({"kind": "control"}, self)
        self._channel.credit = EARLY_CREDIT
        self._protocol.connection_made(self)

    # ---- asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        if not self._closed:
            self._unsent += data
            self._send()

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closed:
            self._channel.reset()
            self._end(None)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._grant()

    # ---- ChannelHandler

    def accepted(self) -> None:
        self._channel.grant(WINDOW)

    def data(self, octets: bytes) -> None:
        self._taken += len(octets)
        self._protocol.data_received(octets)
        self._grant()

    def credit(self) -> None:
        self._send()

    def finished(self) -> None:
        self._channel.finish()
        self._end(None)

    def reset(self, code: str, reason: str) -> None:
        self._end(ConnectionResetError(reason or code))

    # ---- inside

    def _send(self) -> None:
        size = min(len(self._unsent), self._channel.credit)
        if size and not self._channel.ended:
            self._channel.send(bytes(self._unsent[:size]))
            del self._unsent[:size]

    def _grant(self) -> None:
        if not (self._paused or self._closed) and self._taken >= WINDOW // 4:
            taken, self._taken = self._taken, 0
            self._channel.grant(taken)

    def _end(self, exc: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            self._protocol.connection_lost(exc)
            self._link.leave(self)


class Single(Protocol):
    """A connection to a server that serves one session only."""

    def abort(self) -> None: ...


_S = TypeVar("_S", bound=Single)


class SharedLinks:
    """The links of one event loop to one account on one host."""

    def __init__(self) -> None:
        self._links: list[ServerLink] = []
        self._opening: asyncio.Task[Any] | None = None
        self._waiting = 0
        self._single = False

    @property
    def unused(self) -> bool:
        return self._opening is None and not self._links

    async def take(self, start: Callable[[], Coroutine[Any, Any, ServerLink | _S]]) -> ServerLink | _S:
        """A link with room for a session, which the caller opens before it waits for anything; or a connection of its
        own where the account's server serves one session. A new link may be lost already.

        start: logs in. One caller's login is for all that come meanwhile, and so is its failure.
        """
        while (link := self._with_room()) is None:
            opened = await (start() if self._single else self._opened(start))
            if opened is None:
                continue
            self._single = not isinstance(opened, ServerLink)
            if isinstance(opened, ServerLink) and not opened.lost:
                self._links.append(opened)
                # A link knows its loop: it must not keep the loop's places alive.
                opened.when_lost = functools.partial(self._links.remove, opened)
            return opened
        return link

    def _with_room(self) -> ServerLink | None:
        return next((link for link in self._links if link.has_room), None)

    async def _opened(self, start: Callable[[], Coroutine[Any, Any, ServerLink | _S]]) -> ServerLink | _S | None:
        """The result of the login under way; None for all but the first of those that waited for it."""
        opening = self._opening = self._opening or asyncio.ensure_future(start())
        self._waiting += 1
        try:
            opened: ServerLink | _S = await asyncio.shield(opening)
        except BaseException:
            if self._opening is opening and (self._waiting == 1 or opening.done()):
                self._opening = None
                _discard(opening)
            raise
        finally:
            self._waiting -= 1
        if self._opening is not opening:
            return None
        self._opening = None
        return opened


def _discard(opening: asyncio.Task[Any]) -> None:
    """Nobody waits for it any more."""
    if not opening.done():
        opening.cancel()
    elif not opening.cancelled() and not opening.exception():
        opened = opening.result()
        (opened.close_if_unused if isinstance(opened, ServerLink) else opened.abort)()


#: Accounts that one process remembers on one event loop.
_MOST_PLACES = 1000
_places: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str, int], SharedLinks]] = WeakKeyDictionary()


def shared_links(login: str, host: str, port: int) -> SharedLinks:
    """The links of this loop. login: names account, key and host (`AccountLogin.key`)."""
    places = _places.setdefault(asyncio.get_running_loop(), {})
    if len(places) >= _MOST_PLACES:
        for key in [key for key, links in places.items() if links.unused]:
            del places[key]
    return places.setdefault((login, host, port), SharedLinks())
