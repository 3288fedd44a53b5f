"""What follows from a fault: a function that returns a value (truth 5). Pure: clock and dice are the caller's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from endpoints.gridftp.faults import Fault, Kind

#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0

#: A person must give a new credential: nothing else helps, and nothing is lost by waiting.
CREDENTIAL_KINDS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS})
#: What no repetition of the same request mends: the request itself names the wrong thing.
HOPELESS_KINDS = frozenset({Kind.INVALID_PATH_NAME, Kind.AMBIGUOUS_PATH, Kind.IS_A_DIRECTORY})


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again from then on."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Suspend:
    """A person must act; the task waits."""

    why: str


@dataclass(frozen=True, slots=True)
class Skip:
    """As good as done: the caller asked to pass over this kind."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Given up."""

    why: str


Decision = Retry | Suspend | Skip | Fail


def delay(attempts: int, jitter: float) -> float:
    """Seconds to wait after `attempts` earlier faults in a row: between half the step and the whole.

    jitter: 0 <= x < 1, drawn anew each time, so that files that failed together do not come back together.
    """
    step = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(max(attempts, 0), 16))
    return step * (0.5 + 0.5 * jitter)


def decide(
    fault: Fault,
    attempts: int,
    now: datetime,
    deadline: datetime,
    jitter: float,
    *,
    skip: Collection[Kind] = (),
) -> Decision:
    """What to do about this fault after `attempts` earlier ones.

    skip: kinds that the task passes over (a missing file, where `ignore_missing` was asked). A try is never put off
    past the deadline, which ends the task anyway. What nobody knows is tried again.
    """
    if fault.kind in skip:
        return Skip()
    why = fault.advice or fault.raw or fault.kind.value
    if fault.kind in CREDENTIAL_KINDS:
        return Suspend(why)
    if not fault.retryable or fault.kind in HOPELESS_KINDS:
        return Fail(why)
    return Retry(min(now + timedelta(seconds=delay(attempts, jitter)), max(deadline, now)))


@dataclass(slots=True)
class EndpointBackoff:
    """How long to leave the endpoints alone after connections were refused or lost, one after another.

    failures: in a row; outlives the slice by way of `TaskStore.release`.
    """

    failures: int = 0
    until: datetime | None = None

    def failed(self, now: datetime, jitter: float) -> bool:
        """A connection failed. False: it is an echo of a failure known already (lanes fail together)."""
        if self.until is not None and now < self.until:
            return False
        self.until = now + timedelta(seconds=delay(self.failures, jitter))
        self.failures += 1
        return True

    def succeeded(self) -> None:
        """The endpoints do work."""
        self.failures = 0
        self.until = None

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the next connection may be tried; 0 when it may be now."""
        return max(0.0, (self.until - now).total_seconds()) if self.until else 0.0
