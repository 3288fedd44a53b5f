"""ShellConnectionLimits counts connections by state, network and user, and slows down networks that fail to sign in.

A connection takes a token of its network, and gives it back when it signs in. A network without tokens is refused
before anything is read from it: refusing costs less than a key exchange. The tokens of other networks are not touched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from endpoints.gridftp.server.strangers import Strangers

from .bounds import ShellBounds

log = logging.getLogger(__name__)
K = TypeVar("K")
#: Networks whose tokens are remembered; beyond it those that are full again are forgotten, then the oldest.
MOST_NETWORKS = 20_000
#: Lines of the log about logins that failed, and the seconds for which they count.
MOST_LINES, WINDOW = 30, 60.0


@dataclass(eq=False, slots=True)
class Ticket:
    """One connection. end: closes it, from any thread. owner: the user's key after the sign-in."""

    network: str
    end: Callable[[], object]
    owner: object = None


class ShellConnectionLimits:
    """The connections of this server."""

    def __init__(self, bounds: ShellBounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        self._strangers: Strangers[Ticket] = Strangers(bounds.strangers, bounds.strangers_of_network)
        self._sessions_of_network: Counter[str] = Counter()
        self._sessions_of_user: Counter[object] = Counter()
        self._sessions = 0
        self._channels_of_user: Counter[object] = Counter()
        self._channels = 0
        #: Tokens that a network has left, and the time for which this holds.
        self._tokens: dict[str, tuple[float, float]] = {}

    @property
    def sessions(self) -> int:
        return self._sessions

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def arrive(self, network: str, end: Callable[[], object]) -> Ticket | None:
        """A connection that has not signed in; None if it is refused.

        Where there are too many, the oldest one of the network that has most of them gives way.
        """
        with self._lock:
            if not self._take_token(network):
                return None
            ticket = Ticket(network, end)
            late = self._strangers.enter(ticket, network)
        if late is not None:
            late.end()
        return ticket

    def sign_in(self, ticket: Ticket, owner: object) -> bool:
        """The connection has signed in as this user; False if there are too many sessions, and it must end."""
        with self._lock:
            bounds = self._bounds
            if not self._strangers.leave(ticket):
                return False
            self._give_token(ticket.network)
            if (
                self._sessions >= bounds.sessions
                or self._sessions_of_network[ticket.network] >= bounds.sessions_of_network
                or self._sessions_of_user[owner] >= bounds.sessions_of_user
            ):
                return False
            ticket.owner = owner
            self._count(ticket, 1)
            return True

    def is_stranger(self, ticket: Ticket) -> bool:
        """Whether the connection waits for its sign-in: it has neither signed in nor ended, nor is to end."""
        with self._lock:
            return ticket in self._strangers

    def leave(self, ticket: Ticket) -> None:
        """The connection has ended; a second call has no effect."""
        with self._lock:
            if not self._strangers.leave(ticket) and ticket.owner is not None:
                self._count(ticket, -1)
                ticket.owner = None

    def open_channel(self, owner: object) -> bool:
        """Count a channel of this user; False if there are too many."""
        with self._lock:
            bounds = self._bounds
            if self._channels >= bounds.channels_in_all or self._channels_of_user[owner] >= bounds.channels_of_user:
                return False
            self._channels += 1
            self._channels_of_user[owner] += 1
            return True

    def close_channel(self, owner: object) -> None:
        with self._lock:
            self._channels -= 1
            self._channels_of_user[owner] -= 1
            _forget_zero(self._channels_of_user, owner)

    def _count(self, ticket: Ticket, change: int) -> None:
        self._sessions += change
        self._sessions_of_network[ticket.network] += change
        self._sessions_of_user[ticket.owner] += change
        _forget_zero(self._sessions_of_network, ticket.network)
        _forget_zero(self._sessions_of_user, ticket.owner)

    def _left(self, network: str, now: float) -> float:
        tokens, at = self._tokens.get(network, (float(self._bounds.failures), now))
        return min(float(self._bounds.failures), tokens + (now - at) * self._bounds.failures_per_second)

    def _take_token(self, network: str) -> bool:
        now = self._clock()
        left = self._left(network, now)
        if left < 1:
            return False
        self._tokens.pop(network, None)
        if len(self._tokens) >= MOST_NETWORKS:
            self._forget_networks(now)
        self._tokens[network] = (left - 1, now)
        return True

    def _give_token(self, network: str) -> None:
        now = self._clock()
        self._tokens[network] = (min(float(self._bounds.failures), self._left(network, now) + 1), now)

    def _forget_networks(self, now: float) -> None:
        full = [network for network in self._tokens if self._left(network, now) >= self._bounds.failures]
        for network in full or list(self._tokens)[: MOST_NETWORKS // 10]:
            del self._tokens[network]


def _forget_zero(counter: Counter[K], key: K) -> None:
    """A counter keeps no entry for what has gone: names of networks and users would fill the memory."""
    if not counter[key]:
        del counter[key]


class FailureLog:
    """Log lines about logins that failed, bounded: an attacker must not fill the log.

    At most MOST_LINES lines in WINDOW seconds; the next line after that says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._lines = self._left_out = 0

    def failed(self, network: str, reason: str) -> None:
        """reason: our own words, nothing that the client sent."""
        with self._lock:
            now = self._clock()
            if now >= self._until:
                left_out, self._left_out, self._lines, self._until = self._left_out, 0, 0, now + WINDOW
            else:
                left_out = 0
            self._lines += 1
            if self._lines > MOST_LINES:
                self._left_out += 1
                return
        if left_out:
            log.warning("ssh: %d more connections ended without a sign-in", left_out)
        log.warning("ssh: a connection from %s ended without a sign-in: %s", network, reason)
