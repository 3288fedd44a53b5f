"""The rate of a slice: read again with each heartbeat, and passed on to the pacer at which its lanes wait."""

from __future__ import annotations

from transferapi.tasks.fair_rates import FairRate
from transferapi.tasks.worker import bandwidth
from transferapi.tasks.worker.leases import Grant

from .streaming.pacer import Pacer


class TaskRate:
    """Of one slice that something may limit. `refresh` runs in threads of the store, one after the other."""

    def __init__(self, grant: Grant) -> None:
        self.pacer = Pacer()
        self._grant = grant
        self._rate: FairRate | None = None
        #: Something has limited this slice: its goodput says nothing about the servers.
        self.was_limited = False
        #: The task has the event already.
        self._reported = bandwidth.CODE in grant.spec.warned

    def refresh(self) -> None:
        """Read the rate, and hold the slice to it from now on. Raises LeaseLostError."""
        noted = int(self._rate.octets) if self._rate else None
        try:
            self._rate = bandwidth.read(self._grant.task_id, noted)
        except LookupError:
            # Another worker has the task, or will have it: the next heartbeat says so.
            return
        self.was_limited = self.was_limited or self._rate is not None
        self.pacer.change(self._rate.octets if self._rate else None)
        if self._rate and self.pacer.how and not self._reported:
            bandwidth.report(self._grant.task_id, self._grant.epoch, self._rate, self.pacer.how)
            self._reported = True


def of(grant: Grant) -> TaskRate | None:
    """The rate of this slice; None: nothing can limit it."""
    return TaskRate(grant) if bandwidth.can_be_limited(grant.spec, grant.accesses) else None
