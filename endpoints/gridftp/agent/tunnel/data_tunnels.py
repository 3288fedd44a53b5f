"""Tunnels of an agent for data alone, besides the one that it keeps: opened when needed, and closed when idle.

One TCP connection carries one window in a round trip, and begins slowly: several of them carry what a line can, as
several streams do between two servers. The relay offers them in its welcome, `{"data": {"key": text, "most": number}}`.
An agent asks for one with the subprotocol `waybill-data-1` and shows the key, `{"key": text}`; the relay answers
`{"welcome": 0}` or `{"refused": code, "reason": text}`. Channels and frames are those of every tunnel.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from . import frames
from .bridge import DATA_WINDOW, Bridge, attach
from .connection import DEAD_SECONDS, TunnelConnection, TunnelLimits
from .multiplexer import ChannelHandler, Ended

#: Of one tunnel for data, at both ends.
DATA_TUNNEL_LIMITS = TunnelLimits(frame=frames.MAX_BULK_DATA, high_water=128 << 10, channels=16)
#: The most that an agent opens, whatever it is offered.
MOST = 8
#: Octets that a channel of such a tunnel may have under way to us, and channels that may at a time; others have
#: DATA_WINDOW. So the memory for them is bounded where the disk is slow.
WIDE_WINDOW, WIDE_CHANNELS = 1 << 20, 24
#: Seconds without a channel after which one is closed; without one more try after so many failures in turn.
IDLE_SECONDS, FAILURES, PAUSE_SECONDS = 30.0, 3, 600.0
#: Tokens whose tunnels are remembered: the channels of one token keep their order.
_TOKENS = 512


class DataTunnelOffer(NamedTuple):
    """The offer of a relay. key: proves that a further tunnel is of the same agent."""

    key: str
    most: int

    @classmethod
    def read(cls, welcome: Mapping[str, Any]) -> DataTunnelOffer:
        """The offer in a welcome; of none where there is no valid one."""
        content = welcome.get("data")
        if not isinstance(content, dict):
            return cls("", 0)
        key, most = frames.text_of(content, "key", 100), content.get("most")
        return cls(key, min(most, MOST) if key and isinstance(most, int) and most > 0 else 0)


class PlannedTunnel:
    """One tunnel for data, which may not be connected yet. end: raises OSError where there will be none.

    waiting: tokens and sockets of the channels that wait for the connection; None: none has to wait any more.
    """

    def __init__(self, end: asyncio.Future[TunnelConnection]) -> None:
        self.end = end
        self.waiting: list[tuple[str, socket.socket]] | None = []
        self.idle_since: float | None = None

    @property
    def connection(self) -> TunnelConnection | None:
        """None before it is connected, and where that has failed."""
        if not self.end.done() or self.end.cancelled() or self.end.exception() is not None:
            return None
        return self.end.result()

    @property
    def load(self) -> int:
        """Channels, and those that wait for the connection."""
        return len(self.waiting or ()) + (len(self.connection.channels.channels) if self.connection else 0)

    @property
    def is_lost(self) -> bool:
        return self.end.done() and (self.connection is None or bool(self.connection.why_lost))


class DataTunnels:
    """All of one agent's tunnel `main`. open_end: connects one with this key, signed in; raises OSError."""

    def __init__(
        self,
        main: TunnelConnection,
        offer: DataTunnelOffer,
        open_end: Callable[[str], Awaitable[TunnelConnection]],
    ) -> None:
        self._main, self._offer, self._open_end = main, offer, open_end
        self._loop = asyncio.get_event_loop()
        self._tunnels: list[PlannedTunnel] = []
        self._by_token: OrderedDict[str, PlannedTunnel | None] = OrderedDict()
        #: The loop alone would not keep them.
        self._works: set[asyncio.Future[Any]] = set()
        self._failures, self._not_before = 0, 0.0
        self._on_main = self._wide = 0

    async def carry(self, token: str, sock: socket.socket) -> None:
        """Join the socket with a new data channel for this token, at once or soon. Raises OSError."""
        planned = self._place(token)
        if planned is not None and planned.waiting is not None:
            planned.waiting.append((token, sock))
        else:
            end = planned.connection if planned is not None else None
            await self._open(end or self._main, token, sock)

    def tick(self) -> None:
        """Give up tunnels that are silent, and close idle ones; called at intervals."""
        now = self._loop.time()
        for planned in list(self._tunnels):
            if planned.load or not planned.end.done():
                planned.idle_since = None
            else:
                planned.idle_since = planned.idle_since or now
            end = planned.connection
            if end is not None and end.silent_seconds() > DEAD_SECONDS:
                end.abort("the connection is dead")
            elif end is not None and planned.idle_since is not None and now > planned.idle_since + IDLE_SECONDS:
                end.close("not used")
        self._tunnels = [planned for planned in self._tunnels if not planned.is_lost]

    def close(self) -> None:
        """End all of them: the tunnel to which they belong has ended."""
        for work in list(self._works):
            work.cancel()
        for planned in self._tunnels:
            if planned.connection is not None:
                planned.connection.abort("the tunnel of the agent is lost")

    async def wait_closed(self) -> None:
        """After `close`: wait until no connection or socket is left, so that the loop may end."""
        await asyncio.gather(*self._works, return_exceptions=True)
        for planned in self._tunnels:
            # One may be connected although that was canceled: `wait_for` before Python 3.12.
            if planned.connection is not None:
                planned.connection.abort("the tunnel of the agent is lost")
                await planned.connection.lost

    # ---- the choice

    def _place(self, token: str) -> PlannedTunnel | None:
        """The tunnel for the next channel of this token; None: the first one.

        All channels of a token go the same way: the relay joins them in the order in which they come, and a late one
        must not meet the other end of the next.
        """
        known = self._by_token.get(token)
        if token in self._by_token and (known is None or not known.is_lost):
            return known
        found = self._choose()
        self._by_token[token] = found
        self._by_token.move_to_end(token)
        while len(self._by_token) > _TOKENS:
            self._by_token.popitem(last=False)
        return found

    def _choose(self) -> PlannedTunnel | None:
        """An idle one, a new one, or that with the fewest channels; a single channel is not worth the wait for one."""
        alive = [planned for planned in self._tunnels if not planned.is_lost]
        least = min(alive, key=lambda planned: planned.load, default=None)
        if least is not None and not least.load:
            return least
        if least is None and not self._on_main:
            return None
        if len(alive) < self._offer.most and self._loop.time() >= self._not_before:
            return self._plan()
        return least

    def _plan(self) -> PlannedTunnel:
        planned = PlannedTunnel(self._keep(self._connect()))
        planned.end.add_done_callback(lambda _: self._settle(planned))
        self._tunnels.append(planned)
        return planned

    def _settle(self, planned: PlannedTunnel) -> None:
        """Open the channels that have waited, all of them in this step: a later one may not come before them."""
        waiting, planned.waiting = planned.waiting or [], None
        for token, sock in waiting:
            if planned.connection is None:
                # And so do its later channels.
                self._by_token[token] = None
            try:
                self._open(planned.connection or self._main, token, sock)
            except OSError:
                sock.close()

    async def _connect(self) -> TunnelConnection:
        """Open a tunnel for data, and count failures in a row. Raises OSError."""
        try:
            found = await self._open_end(self._offer.key)
        except OSError:
            self._failures += 1
            if self._failures >= FAILURES:
                self._failures, self._not_before = 0, self._loop.time() + PAUSE_SECONDS
            raise
        self._failures = 0
        return found

    # ---- the channels

    def _open(self, end: TunnelConnection, token: str, sock: socket.socket) -> asyncio.Future[None]:
        """Open a channel at once; the future is that of its socket. Raises OSError."""
        if end.why_lost:
            raise ConnectionError("the service is not connected")
        # Nothing is read before the other end gives credit. Where it does not come, the relay ends the channel.
        channel = end.channels.open({"kind": "data", "token": token}, ChannelHandler())
        bridge = Bridge(channel, self._window(end))
        bridge.lost = self._counted(end, bridge.window)
        # The session's thread finds a window of octets there, and this loop need not wait for it.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, bridge.window)

        def ended(attaching: asyncio.Future[None]) -> None:
            # Also where it is canceled before it has begun.
            if attaching.cancelled() or attaching.exception() is not None:
                channel.reset(Ended.CLOSED)
                bridge.lost()
                sock.close()

        attaching = self._keep(attach(bridge, sock))
        attaching.add_done_callback(ended)
        return attaching

    def _window(self, end: TunnelConnection) -> int:
        return WIDE_WINDOW if end is not self._main and self._wide < WIDE_CHANNELS else DATA_WINDOW

    def _counted(self, end: TunnelConnection, window: int) -> Callable[[], None]:
        """Count a channel; what is returned ends that, once."""
        on_main, wide = int(end is self._main), int(window == WIDE_WINDOW)
        self._on_main += on_main
        self._wide += wide
        has_ended = False

        def ended() -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                self._on_main -= on_main
                self._wide -= wide

        return ended

    def _keep(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(work)
        self._works.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._works.discard(task)
        if not task.cancelled():
            with contextlib.suppress(OSError):
                task.result()
