"""Fewer lanes while connections are refused or lost, and all of them again when that is over. Pure."""

from __future__ import annotations

#: Seconds without a fault after which twice the lanes are taken; by how much more each time that brings faults again.
QUIET = 30.0
PATIENCE = 6.0
LONGEST_QUIET = 24 * 3600.0


class Retreat:
    """Halves lanes at a fault. What several lanes say of one outage counts once."""

    def __init__(self) -> None:
        #: Lanes before the first fault; None: nothing was given up.
        self.lanes: int | None = None
        self._quiet = QUIET
        self._calm_at = 0.0
        self._deaf_until = 0.0
        self._returned = False

    def news(self, at: float, settling: float) -> bool:
        """Whether this fault is the first of an outage. settling: seconds in which further ones belong to it."""
        if at < self._deaf_until:
            return False
        self._deaf_until = at + settling
        return True

    def fewer(self, at: float, lanes: int, least: int) -> int:
        """How many lanes to go on with."""
        if self._returned:
            self._quiet = min(PATIENCE * self._quiet, LONGEST_QUIET)
            self._returned = False
        self._calm_at = at + self._quiet
        fewer = max(min(least, lanes), lanes // 2)
        if fewer < lanes and self.lanes is None:
            self.lanes = lanes
        return fewer

    def more(self, at: float, lanes: int) -> int:
        """How many lanes to go on with when there is no fault now: more when it has been quiet for long enough."""
        if self.lanes is None or at < self._calm_at:
            return lanes
        self._calm_at, self._returned = at + self._quiet, True
        more = min(2 * lanes, self.lanes)
        if more == self.lanes:
            self.lanes = None
        return more

    @property
    def quiet(self) -> float:
        """Seconds without a fault that the lanes wait for."""
        return self._quiet
