"""When and how the user of the present call has proven to be this user: for demands of endpoints (step-up).

Each interface says it (`proven_by`): a session of the pages, the consent behind a token, an ssh session. Without a word
nothing is proven: API tokens, and tokens of applications that act alone, meet no demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

#: Seconds after a sign-in in which a session may change how its user signs in, or what acts for the user.
RECENT = 600.0
#: The ways of signing in that take two factors, or a device that verifies its owner.
SECOND_FACTOR = frozenset({"code", "second", "passkey"})


@dataclass(frozen=True, slots=True)
class SignInProof:
    """way: as in `OpenSession`. identity: `name@domain`, with which the user signed in."""

    at: datetime
    way: str = ""
    identity: str = ""

    @property
    def domain(self) -> str:
        return self.identity.rpartition("@")[2].lower()

    @property
    def is_multi_factor(self) -> bool:
        return self.way in SECOND_FACTOR

    @property
    def is_recent(self) -> bool:
        """Whether it may add a way in: a session that was left open, or stolen, may not."""
        return self.age() < RECENT

    def age(self) -> float:
        """Seconds since the sign-in."""
        return (datetime.now(UTC) - self.at).total_seconds()


@dataclass(frozen=True, slots=True)
class Background:
    """Work that was accepted before, such as a timer. The age of a sign-in counts no more."""


Present = SignInProof | Background | None
_PRESENT: ContextVar[Callable[[], Present] | None] = ContextVar("proof", default=None)


def present() -> Present:
    found = _PRESENT.get()
    return found() if found else None


@contextmanager
def proven_by(find: Callable[[], Present]) -> Iterator[None]:
    """Within this block, in this thread. find: called when an endpoint makes a demand."""
    token = _PRESENT.set(find)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def replace(found: Present) -> None:
    """For the rest of the present block: a token of this call counts, and no session."""
    _PRESENT.set(lambda: found)
