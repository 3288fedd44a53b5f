"""Identities that a provider has proven, after its answer was checked.

Errors are those of `identity.linked_identities`, too. No sentence holds what a provider has sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from identity.gsi.printable import translatable as _

from .error_categories import Category, Refusal, RefusedError

if TYPE_CHECKING:
    from .models import User


class LinkedIdentityError(RefusedError):
    """An identity, or a change of the linked identities, is refused."""


# The audit log has the names of these classes.


class IdentityNotUsableError(LinkedIdentityError):
    """The provider has named no person by whom a user could be found again."""

    refusal = Refusal(Category.EXTERNAL, _("The provider did not say who you are in a way that this service can use."))


class IdentityTakenError(LinkedIdentityError):
    """Another user has linked it."""

    refusal = Refusal(
        Category.EXISTS, _("This identity belongs to another user of this service. It must be unlinked there first.")
    )


class TooManyIdentitiesError(LinkedIdentityError):
    refusal = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} linked identities")


class IdentityInactiveError(LinkedIdentityError):
    refusal = Refusal(
        Category.PERMISSION_DENIED, _("The user of this identity is not active. Ask those who run this service.")
    )

    def __init__(self, user: User) -> None:
        super().__init__()
        self.user = user


class IdentityNotFoundError(LinkedIdentityError):
    """There is no such identity, or the user has not linked it."""

    refusal = Refusal(Category.NOT_FOUND, "No such identity '{ref}'")

    def __init__(self, ref: object) -> None:
        super().__init__(ref=ref)


class ProofTooOldError(LinkedIdentityError):
    """The session, or the proof of the provider, is too old."""

    refusal = Refusal(
        Category.PERMISSION_DENIED, _("Too much time has passed. Sign in again, and then at the provider.")
    )


LAST_WAY_IN = Refusal(
    Category.CONFLICT,
    _("You could not sign in any more. Set a password, or add a passkey or another identity first."),
)

#: Characters, as in the columns of the table.
MAX_PROVIDER, MAX_SUBJECT, MAX_USERNAME, MAX_EMAIL, MAX_TEXT = 1100, 1024, 512, 254, 256
#: The year 5138.
_END_OF_TIME = 1e11
_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s]{1,189}")


@dataclass(frozen=True, slots=True)
class Proven:
    """One person at one provider.

    provider: who vouches, as in `LinkedIdentity`. subject: stable and unique there. username: `name@domain`.
    email_verified: whether the provider says that the address is this person's. proven_at: Unix time of its answer.
    authenticated_at: when the provider has asked this person last (Unix time); None if it does not say.
    name_is_address: whether the name before the domain is a mail address, which people choose themselves.
    """

    provider: str
    subject: str
    username: str
    email: str = ""
    email_verified: bool = False
    name: str = ""
    organization: str = ""
    proven_at: float = 0.0
    name_is_address: bool = False
    authenticated_at: float | None = None

    @classmethod
    def of(cls, provider: str, subject: object, username: str, proven_at: float, **facts: Any) -> Proven:
        """Bring the words of the provider into the form of the table. Raises IdentityNotUsableError.

        facts: email, email_verified, name, organization, name_is_address, authenticated_at; what is not usable of these
        is left out.
        """
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
            raise IdentityNotUsableError()
        if not 0 < len(username) <= MAX_USERNAME or not username.isprintable() or len(provider) > MAX_PROVIDER:
            raise IdentityNotUsableError()
        email = _text(facts.get("email"), MAX_EMAIL)
        email = email if _EMAIL.fullmatch(email) else ""
        return cls(
            provider=provider,
            subject=subject,
            username=username,
            email=email,
            email_verified=bool(email) and facts.get("email_verified") is True,
            name=_text(facts.get("name"), MAX_TEXT),
            organization=_text(facts.get("organization"), MAX_TEXT),
            proven_at=proven_at,
            name_is_address=facts.get("name_is_address") is True,
            authenticated_at=_time(facts.get("authenticated_at")),
        )

    def signed_in_at(self, now: float) -> float:
        """The time of a sign-in by this proof (Unix time), at most now. 0.0: unknown, so older than any demand."""
        return min(self.authenticated_at or 0.0, now)

    def as_document(self) -> dict[str, Any]:
        """For a session, on the server."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Proven:
        return cls(**document)


def name_at(name: str, domain: str, others: Collection[str] = ()) -> str:
    """`name@domain`. A name that ends in the domain, or in one of `others`, which the provider may give, stays."""
    local, at, end = name.rpartition("@")
    if at and local and end.lower() in {domain.lower(), *(one.lower() for one in others)}:
        return f"{local}@{end.lower()}"
    return f"{name}@{domain.lower()}"


def _text(value: object, most: int) -> str:
    """The value if it is one line of text, cut to `most` characters; else ""."""
    return value.strip()[:most] if isinstance(value, str) and value.isprintable() else ""


def _time(value: object) -> float | None:
    """The value if it is a time of this epoch."""
    is_time = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _END_OF_TIME
    return float(value) if is_time else None  # type: ignore[arg-type]  # is_time says so
