"""The decision after a fault: a function that returns a value (truth 5). Pure: time and jitter are parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from endpoints.gridftp.faults import AWAY_KINDS, Fault, FaultScope, Kind, Side

#: Seconds before the second try; each further delay is twice as long, up to the longest.
FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
#: Seconds after which a task looks for a computer that is away, should the call of the relay be lost.
AWAY_SECONDS = 300.0

#: A person must give a new credential: nothing else helps, and waiting loses nothing.
CREDENTIAL_KINDS = frozenset({Kind.AUTH, Kind.NO_CREDENTIALS})
#: Faults of the request itself: repeating it cannot succeed.
HOPELESS_KINDS = frozenset({Kind.ACL_CHANGED, Kind.INVALID_PATH_NAME, Kind.AMBIGUOUS_PATH, Kind.IS_A_DIRECTORY})
#: Tries of a file that is another one after each of them, and of a request that a server does not know.
TRIES_OF_CHANGING, TRIES_OF_UNKNOWN = 5, 3
CHANGING_KINDS = frozenset({Kind.FILE_SIZE_CHANGED, Kind.VERIFY_CHECKSUM})
CHANGING = (
    "The file was changed while it was read, in each of {tries} tries. Stop the program that writes it, or "
    "make a copy that stays as it is, and transfer that."
)
#: Tries of a removal at which the connection ends: the delays before the last one add up to 4 to 9 minutes.
TRIES_OF_ENDING = 10
ENDED_KINDS = frozenset({Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET})
ENDING = (
    "The server has ended the connection at the removal of this entry again, in try {tries}, and lets the next one in. "
    "Its log may say why; remove the entry in another way."
)
#: Kinds that skip_source_errors skips at the source, as the Globus service does; and those that are faults of the
#: source whichever side reports them: two sources for one destination, and a name that no command can contain.
SOURCE_ERRORS = frozenset({Kind.FILE_NOT_FOUND, Kind.PERMISSION_DENIED, Kind.AMBIGUOUS_PATH, Kind.INVALID_PATH_NAME})
_OF_THE_SOURCE = frozenset({Kind.AMBIGUOUS_PATH, Kind.INVALID_PATH_NAME})


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at this time."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Suspend:
    """A person must act; the task waits."""

    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The computer of an endpoint is away: nothing counts as tried, and the whole task waits until it is back.

    at: the time to look for it again, although the relay calls as soon as it is back.
    """

    at: datetime


@dataclass(frozen=True, slots=True)
class Skip:
    """The caller asked to treat this kind as success."""


@dataclass(frozen=True, slots=True)
class PassOver:
    """Skip the file, as the user asked: its fault is recorded, and the task does not fail."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The file fails."""

    why: str


Decision = Retry | Suspend | Wait | Skip | PassOver | Fail


@dataclass(frozen=True, slots=True)
class Policy:
    """The user's options about faults."""

    skip_source_errors: bool = False
    fail_on_quota_errors: bool = False

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Policy:
        """Read the options of a task by their wire names."""
        return cls(bool(options.get("skip_source_errors")), bool(options.get("fail_on_quota_errors")))

    def may_pass_over(self, fault: Fault) -> bool:
        """Whether the task continues without this file; the caller tries twice before it asks."""
        at_source = fault.side is Side.SOURCE or fault.kind in _OF_THE_SOURCE
        return self.skip_source_errors and at_source and fault.kind in SOURCE_ERRORS

    def ends_task(self, fault: Fault) -> bool:
        """Whether this fault ends the whole task: a revoked permission, or a quota where the user asked for that."""
        if fault.kind is Kind.ACL_CHANGED:
            return True
        at_source = fault.side is Side.SOURCE
        return self.fail_on_quota_errors and not at_source and fault.kind is Kind.QUOTA_EXCEEDED


def delay(attempts: int, jitter: float) -> float:
    """Seconds to wait after `attempts` earlier faults in a row: between half the step and the whole.

    jitter: 0 <= x < 1, drawn for each call, so that files that failed together are not tried together again.
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
    """Decide what follows from this fault after `attempts` earlier ones.

    skip: kinds that count as success (a missing file with `ignore_missing`). A retry is never later than the deadline,
    which ends the task anyway. Unknown faults are tried again.
    renewable: a person can give another credential; else a refused login is tried again like any other fault.
    """
    if fault.kind in skip:
        return Skip()
    if fault.kind in AWAY_KINDS:
        return Wait(min(now + timedelta(seconds=AWAY_SECONDS), max(deadline, now)))
    why = fault.advice or fault.raw or fault.kind.value
    if _needs_a_person(fault, renewable=renewable):
        return Suspend(why)
    hopeless = _is_hopeless(fault, attempts)
    # A second try, because a file may be missing for a moment while it is renamed.
    if policy.may_pass_over(fault) and (hopeless or attempts):
        return PassOver()
    if hopeless or policy.ends_task(fault):
        return Fail(why)
    return Retry(min(now + timedelta(seconds=delay(attempts, jitter)), max(deadline, now)))


def _needs_a_person(fault: Fault, *, renewable: bool) -> bool:
    return (fault.kind in CREDENTIAL_KINDS and renewable) or fault.kind is Kind.HOST_KEY_CHANGED


def _is_hopeless(fault: Fault, attempts: int) -> bool:
    """Whether another try would fail in the same way. A credential may be renewed meanwhile."""
    if fault.kind in HOPELESS_KINDS or not (fault.retryable or fault.kind in CREDENTIAL_KINDS):
        return True
    unknown = fault.kind is Kind.UNSUPPORTED and fault.scope is FaultScope.FILE
    return unknown and attempts >= TRIES_OF_UNKNOWN - 1


def unless_changing(fault: Fault, attempts: int, last: str) -> Fault:
    """The fault of a file after `attempts` earlier ones, not retryable where the file is another one again and again.

    last: the kind of the fault before; "" for none.
    """
    if fault.kind is not Kind.FILE_SIZE_CHANGED or last not in CHANGING_KINDS or attempts < TRIES_OF_CHANGING - 1:
        return fault
    return replace(fault, retryable=False, advice=CHANGING.format(tries=attempts + 1))


def unless_ending(fault: Fault, attempts: int, last: str) -> Fault:
    """The fault of an entry whose removal was sent alone, not retryable where the connection ends at it each time.

    attempts, last: as of `unless_changing`. A server that lets nobody in meanwhile is another fault, and none of the
    entry's.
    """
    if fault.kind not in ENDED_KINDS or last not in ENDED_KINDS or attempts < TRIES_OF_ENDING - 1:
        return fault
    return replace(fault, retryable=False, advice=ENDING.format(tries=attempts + 1))


def worse(first: Fault | None, fault: Fault) -> Fault:
    """Return the fault to decide by, of two faults of one file: a retryable fault goes first."""
    return fault if first is None or (fault.retryable and not first.retryable) else first


@dataclass(slots=True)
class EndpointBackoff:
    """A backoff of the endpoints after connections were refused or lost, one after another.

    failures: in a row; the next slice gets the number through `TaskStore.release`.
    """

    failures: int = 0
    until: datetime | None = None

    def failed(self, now: datetime, jitter: float) -> bool:
        """A connection failed. Returns False for a duplicate report of a known failure: lanes fail together."""
        if self.until is not None and now < self.until:
            return False
        self.until = now + timedelta(seconds=delay(self.failures, jitter))
        self.failures += 1
        return True

    def succeeded(self) -> None:
        """The endpoints work."""
        self.failures = 0
        self.until = None

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the next connection may be tried; 0 when that is now."""
        return max(0.0, (self.until - now).total_seconds()) if self.until else 0.0
