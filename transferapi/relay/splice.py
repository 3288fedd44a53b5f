"""Joined data channels: two of agents, or one of an agent and a socket of this service.

Credit goes from the receiver through to the sender, so the relay holds at most one window of a direction. The rate of a
user is kept by passing credit on later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from endpoints.gridftp.agent.tunnel.bridge import DATA_WINDOW, Bridge
from endpoints.gridftp.agent.tunnel.frames import MAX_BULK_DATA
from endpoints.gridftp.agent.tunnel.multiplexer import ChannelHandler, TunnelChannel

from .user_budget import UserBudget

#: For all bridges: what is read into it is sent before the loop does anything else.
_READ = bytearray(MAX_BULK_DATA)


class TrafficMeter:
    """Counts the octets of one pair of channels, and delays what exceeds the user's rate."""

    def __init__(self, budget: UserBudget, count: Callable[[int], None], ended: Callable[[], None]) -> None:
        self._budget, self._count, self._ended = budget, count, ended
        self._loop = asyncio.get_running_loop()
        self.last_at = self._loop.time()
        self._open = True

    def passed(self, octets: int) -> None:
        self.last_at = self._loop.time()
        self._count(octets)

    def later(self, octets: int, action: Callable[[int], None]) -> None:
        """Call `action` with these octets as soon as the user may have them."""
        delay = self._budget.take(octets)
        if delay:
            self._loop.call_later(delay, action, octets)
        else:
            action(octets)

    def end(self) -> None:
        if self._open:
            self._open = False
            self._budget.leave()
            self._ended()


class SpliceEnd(ChannelHandler):
    """One of two joined channels of tunnels."""

    def __init__(self, channel: TunnelChannel, meter: TrafficMeter) -> None:
        self.channel, self._meter = channel, meter
        #: Set by `splice`.
        self.other: SpliceEnd
        #: Credit of this channel that was passed on to the other end, and has not been used.
        self._passed_on = 0

    def data(self, octets: bytes) -> None:
        self._meter.passed(len(octets))
        if not self.other.channel.ended:
            self.other._passed_on -= len(octets)
            self.other.channel.send(octets)
            self.other.credit()

    def credit(self) -> None:
        """Pass credit on, one window at most: a receiver that grants more and reads less would fill our memory."""
        more = min(self.channel.credit, DATA_WINDOW) - self._passed_on
        if more > 0:
            self._passed_on += more
            self._meter.later(more, self._grant)

    def _grant(self, octets: int) -> None:
        self.other.channel.grant(octets)

    def finished(self) -> None:
        self.other.channel.finish()
        if self.channel.sent_finish:
            self._meter.end()

    def reset(self, code: str, reason: str) -> None:
        self.other.channel.reset(code, reason)
        self._meter.end()

    def end(self, code: str, reason: str) -> None:
        """End both."""
        self.channel.reset(code, reason)
        self.reset(code, reason)


def splice(one: TunnelChannel, two: TunnelChannel, meter: TrafficMeter) -> SpliceEnd:
    """Join two channels that agents have opened, and accept both."""
    ends = SpliceEnd(one, meter), SpliceEnd(two, meter)
    for end, other in (ends, ends[::-1]):
        end.other = other
        end.channel.handler = end
    for end in ends:
        end.channel.accept(0)
    return ends[0]


class MeteredBridge(Bridge):
    """A channel of an agent, joined with a socket of this service."""

    def __init__(self, channel: TunnelChannel, meter: TrafficMeter) -> None:
        super().__init__(channel, DATA_WINDOW, buffer=_READ)
        self._meter = meter
        self._delayed = False
        self.lost = meter.end

    def data(self, octets: bytes) -> None:
        self._meter.passed(len(octets))
        super().data(octets)

    def give_credit(self, octets: int) -> None:
        self._meter.later(octets, super().give_credit)

    def may_read(self) -> bool:
        return super().may_read() and not self._delayed

    def buffer_updated(self, nbytes: int) -> None:
        self._meter.passed(nbytes)
        self._delayed = True
        self._meter.later(nbytes, self._go_on)
        super().buffer_updated(nbytes)

    def _go_on(self, _: int) -> None:
        self._delayed = False
        self.choose_reading()

    def end(self, code: str, reason: str) -> None:
        channel = self.channel
        channel.reset(code, reason)
        self.reset(code, reason)
        self._meter.end()
