"""Fewer lanes while connections are refused or lost, or a server is full, and all of them again afterwards. Pure."""

from __future__ import annotations

#: Seconds without a fault before the lanes are doubled; and by which factor that grows when it brings faults again.
QUIET = 30.0
QUIET_FACTOR = 6.0
LONGEST_QUIET = 24 * 3600.0


class LaneBackoff:
    """Halves the lanes at a fault. Faults that several lanes report of one outage count once."""

    def __init__(self) -> None:
        #: Lanes before the first fault; None: none were given up.
        self.lanes: int | None = None
        #: Seconds without a fault that the lanes wait for.
        self.quiet = QUIET
        self._restore_at = 0.0
        self._ignore_until = 0.0
        self._returned = False

    def is_new_outage(self, at: float, settling: float) -> bool:
        """Whether this fault is the first of an outage. settling: seconds in which further ones belong to it."""
        if at < self._ignore_until:
            return False
        self._ignore_until = at + settling
        return True

    def fewer(self, at: float, lanes: int, least: int) -> int:
        """The number of lanes to continue with after a fault."""
        if self._returned:
            self.quiet = min(QUIET_FACTOR * self.quiet, LONGEST_QUIET)
            self._returned = False
        self._restore_at = at + self.quiet
        fewer = max(min(least, lanes), lanes // 2)
        if fewer < lanes and self.lanes is None:
            self.lanes = lanes
        return fewer

    def more(self, at: float, lanes: int) -> int:
        """The number of lanes to continue with when there is no fault: more after enough seconds without one."""
        if self.lanes is None or at < self._restore_at:
            return lanes
        self._restore_at, self._returned = at + self.quiet, True
        more = min(2 * lanes, self.lanes)
        if more == self.lanes:
            self.lanes = None
        return more


class LaneLimit:
    """The lanes that a full server leaves to this task: as many as were open when it refused another one."""

    def __init__(self) -> None:
        self._most: int | None = None
        #: Seconds until one more is tried; each time in vain, it is longer.
        self._quiet = QUIET
        self._until = 0.0

    def refused(self, at: float, lanes: int) -> bool:
        """A server is full while so many lanes are open, at least one. Returns whether that is news."""
        news = at >= self._until or self._most is None or lanes < self._most
        if self._most is not None and at >= self._until:
            self._quiet = min(QUIET_FACTOR * self._quiet, LONGEST_QUIET)
        self._most, self._until = max(1, lanes), at + self._quiet
        return news

    def allowed(self, at: float, wanted: int) -> int:
        """How many of these lanes may be open now: one more than there were, when it is time to try."""
        if self._most is None:
            return wanted
        return min(wanted, self._most + (at >= self._until))
