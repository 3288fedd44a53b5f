"""The share of one user in a relay: pairs of channels, and octets a second."""

from __future__ import annotations

from collections.abc import Callable

#: Seconds of the rate that may be passed on at once.
BURST_SECONDS = 0.5


class UserBudget:
    """A token bucket, shared by all channels of a user. clock: seconds, monotonic."""

    def __init__(self, rate: int, channels: int, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._clock = rate, channels, clock
        self._balance, self._at = rate * BURST_SECONDS, clock()
        self.channels = 0
        #: When the last channel was opened or closed, or octets were taken.
        self.used_at = clock()

    def enter(self) -> bool:
        """Whether there is room for one more pair of channels; if so, the caller calls `leave` once."""
        if self.channels >= self._most:
            return False
        self.channels += 1
        self.used_at = self._clock()
        return True

    def leave(self) -> None:
        self.channels -= 1
        self.used_at = self._clock()

    def take(self, octets: int) -> float:
        """Take so many octets from the budget; seconds until they may be passed on."""
        if not self._rate:
            return 0.0
        now = self._clock()
        self._balance = min(self._rate * BURST_SECONDS, self._balance + (now - self._at) * self._rate) - octets
        self._at = now
        return max(0.0, -self._balance / self._rate)
