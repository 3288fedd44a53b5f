"""What follows from a fault: a function that returns a value (truth 5). Pure: clock and dice are the caller's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from endpoints.gridftp.faults import Fault, Kind, Side

#: Seconds before the second try; each further one waits twice as long, up to the longest.
FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0

#: A person must give a new credential: nothing else helps, and nothing is lost by waiting.
CREDENTIAL_KINDS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS})
#: What no repetition of the same request mends: the request itself names the wrong thing.
HOPELESS_KINDS = frozenset({Kind.ACL_CHANGED, Kind.INVALID_PATH_NAME, Kind.AMBIGUOUS_PATH, Kind.IS_A_DIRECTORY})
#: What skip_source_errors passes over at the source, as the Globus service has it. Two sources for one destination
#: are the source's matter, whoever notices.
SOURCE_ERRORS = frozenset({Kind.FILE_NOT_FOUND, Kind.PERMISSION_DENIED, Kind.AMBIGUOUS_PATH})


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
class PassOver:
    """Left out, as the user asked: recorded with its fault, and no failure of the task."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Given up."""

    why: str


Decision = Retry | Suspend | Skip | PassOver | Fail


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user asked about faults."""

    skip_source_errors: bool = False
    fail_on_quota_errors: bool = False

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Policy:
        """From the options of a task by their wire names."""
        return cls(bool(options.get("skip_source_errors")), bool(options.get("fail_on_quota_errors")))

    def may_pass_over(self, fault: Fault) -> bool:
        """Whether this is a fault that the task goes on without; it is looked at twice before."""
        at_source = fault.side is Side.SOURCE or fault.kind is Kind.AMBIGUOUS_PATH
        return self.skip_source_errors and at_source and fault.kind in SOURCE_ERRORS

    def spoils_all(self, fault: Fault) -> bool:
        """Whether this fault ends the whole task: a right that was taken away, and what the user asked."""
        if fault.kind is Kind.ACL_CHANGED:
            return True
        at_source = fault.side is Side.SOURCE
        return self.fail_on_quota_errors and not at_source and fault.kind is Kind.QUOTA_EXCEEDED


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
    policy: Policy = Policy(),
    renewable: bool = True,
) -> Decision:
    """What to do about this fault after `attempts` earlier ones.

    skip: kinds that are as good as done (a missing file, where `ignore_missing` was asked). A try is never put off
    past the deadline, which ends the task anyway. What nobody knows is tried again.
    renewable: a person can give another credential; where none is needed, a login is tried again like anything else.
    """
    if fault.kind in skip:
        return Skip()
    why = fault.advice or fault.raw or fault.kind.value
    is_credential = fault.kind in CREDENTIAL_KINDS
    if is_credential and renewable:
        return Suspend(why)
    hopeless = not (fault.retryable or is_credential) or fault.kind in HOPELESS_KINDS
    # A second look, because a file may be away for a moment only, while somebody renames it.
    if policy.may_pass_over(fault) and (hopeless or attempts):
        return PassOver()
    if hopeless or policy.spoils_all(fault):
        return Fail(why)
    return Retry(min(now + timedelta(seconds=delay(attempts, jitter)), max(deadline, now)))


def worse(known: Fault | None, fault: Fault) -> Fault:
    """Of two faults of one thing that to decide by: what a repetition may mend goes before what it cannot."""
    return fault if known is None or (fault.retryable and not known.retryable) else known


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
