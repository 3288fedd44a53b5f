"""Ports of this relay at which a server delivers data for an agent, to which it cannot connect.

An entrance is a listening port with one token. A connection to it is joined with a data channel that the agent opens by
this token. It lasts as long as the worker's connection that asked for it, and its port then rests: a late connection
of one file must not meet the port of another one (docs/decisions/agents.md).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from endpoints.connect.relay_address import DataPorts
from endpoints.connect.relay_messages import SERVER, DataToken
from endpoints.gridftp.agent.tunnel.bridge import attach
from endpoints.gridftp.agent.tunnel.multiplexer import Ended

from .bounds import RelayBounds
from .rendezvous import Offer, OfferRefusedError, Rendezvous
from .splice import MeteredBridge

log = logging.getLogger(__name__)

#: Seconds for which a port is not used again: longer than a kernel tries to connect (tcp_syn_retries 6: 127 s).
REST_SECONDS = 130.0
#: Seconds for which a port accepts nobody after too many strangers.
PAUSE_SECONDS = 1.0
_BACKLOG = 8
NO_PORTS = "no ports"


class Entrances:
    """The open ports of one relay process. where: None where the operator has opened none. Lives on one event loop."""

    def __init__(self, where: DataPorts | None, bounds: RelayBounds, rendezvous: Rendezvous) -> None:
        self.bounds, self.rendezvous = bounds, rendezvous
        self._where = where
        self._open: set[Entrance] = set()
        self._of_user: Counter[str] = Counter()
        self._next = 0
        #: Until when each port rests, by the monotonic clock.
        self._resting: dict[int, float] = {}
        self.attaching: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, token: DataToken, hosts: Collection[str]) -> Entrance:
        """Listen for the token. Raises OfferRefusedError."""
        if self._where is None:
            raise OfferRefusedError(NO_PORTS, "this relay has no ports for servers")
        if self._of_user[token.user] >= self.bounds.entrances_of_user:
            raise OfferRefusedError(Ended.BUSY, "this user has as many ports of the relay as allowed")
        listener = self._listen(self._where)
        self._of_user[token.user] += 1
        self.rendezvous.open_entrance(token)
        entrance = Entrance(self, token, frozenset(hosts), listener, self._where.host)
        self._open.add(entrance)
        return entrance

    def closed(self, entrance: Entrance) -> None:
        """The entrance has ended."""
        self._open.discard(entrance)
        self._of_user -= Counter([entrance.token.user])
        self._resting[entrance.port] = time.monotonic() + REST_SECONDS
        self.rendezvous.close_entrance(entrance.token)

    def tick(self) -> None:
        """Close ports whose tokens have expired: the worker's machine may have gone without a word. At intervals."""
        now = time.time()
        for entrance in [one for one in self._open if one.token.expires < now]:
            entrance.close()

    def close_all(self) -> None:
        for entrance in list(self._open):
            entrance.close()

    def _listen(self, where: DataPorts) -> socket.socket:
        """A listening socket at the next free port. Raises OfferRefusedError."""
        now = time.monotonic()
        self._resting = {port: until for port, until in self._resting.items() if until > now}
        count = where.high - where.low + 1
        for _ in range(count):
            port = where.low + self._next
            self._next = (self._next + 1) % count
            if port not in self._resting and (found := _listening(where.host, port)):
                return found
        raise OfferRefusedError(Ended.BUSY, "no port of the relay is free")


class Entrance:
    """One listening port. hosts: the addresses from which its connections are accepted."""

    def __init__(
        self, owner: Entrances, token: DataToken, hosts: Collection[str], listener: socket.socket, host: str
    ) -> None:
        self.token, self.host = token, host
        self.port: int = listener.getsockname()[1]
        self._owner, self._hosts, self._listener = owner, hosts, listener
        self._loop = asyncio.get_running_loop()
        self._held: set[socket.socket] = set()
        self._bridges: set[MeteredBridge] = set()
        #: Strangers since the last pause.
        self._strangers = 0
        self._pause: asyncio.TimerHandle | None = None
        self._told = False
        self._loop.add_reader(listener.fileno(), self._accept)

    def close(self) -> None:
        """Close the port, and all connections to it."""
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        if self._pause is not None:
            self._pause.cancel()
        self._owner.closed(self)

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if peer[0] not in self._hosts:
            sock.close()
            self._turn_away(peer[0])
        elif len(self._held) + len(self._bridges) >= self._owner.bounds.connections_of_entrance:
            sock.close()
        else:
            self._offer(sock)

    def _offer(self, sock: socket.socket) -> None:
        self._held.add(sock)

        def refused(_code: str = "", _reason: str = "") -> None:
            self._held.discard(sock)
            sock.close()

        try:
            self._owner.rendezvous.offer(
                Offer(self.token, SERVER, None, joined=partial(self._joined, sock), refused=refused)
            )
        except OfferRefusedError:
            refused()

    def _joined(self, sock: socket.socket, bridge: MeteredBridge) -> None:
        self._held.discard(sock)
        self._bridges.add(bridge)
        lost = bridge.lost

        def ended() -> None:
            self._bridges.discard(bridge)
            lost()

        bridge.lost = ended
        task = self._loop.create_task(_attach(bridge, sock))
        self._owner.attaching.add(task)
        task.add_done_callback(self._owner.attaching.discard)

    def _turn_away(self, stranger: str) -> None:
        """Log the first one, and rest for a moment after many: they must not take the time of all tunnels."""
        if not self._told:
            self._told = True
            log.warning("relay: port %d was called from %s, which is not the server that may", self.port, stranger)
        self._strangers += 1
        if self._strangers >= self._owner.bounds.strangers_of_entrance:
            self._strangers = 0
            self._loop.remove_reader(self._listener.fileno())
            again: Callable[[], None] = lambda: self._loop.add_reader(self._listener.fileno(), self._accept)  # noqa: E731
            self._pause = self._loop.call_later(PAUSE_SECONDS, again)


async def _attach(bridge: MeteredBridge, sock: socket.socket) -> None:
    try:
        await attach(bridge, sock)
    except OSError:
        sock.close()
        bridge.end(Ended.CLOSED, "the server has gone")
        bridge.lost()


def _listening(host: str, port: int) -> socket.socket | None:
    """At this address; where it is no address of this machine (a container, a NAT in front), at all of them."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for where in (host, ""):
        try:
            listener = socket.create_server((where, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                return None
        else:
            listener.setblocking(False)
            return listener
    return None
