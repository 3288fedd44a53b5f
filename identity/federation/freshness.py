"""Whether a person has authenticated at the provider for this sign-in, or before it (single sign-on).

A session that the provider keeps signs a person in without a question. Where a new sign-in is demanded, the provider is
asked to ask the person again (`prompt=login`, `max_age`; `ForceAuthn`), and what it then says of the time counts:
`auth_time`, `AuthnInstant`. A provider can ignore the request, so nothing that it leaves out counts as new.
"""

from __future__ import annotations

from enum import StrEnum

from identity.proven_identities import Proven

from .errors import FreshnessUnknownError, NotFreshError

#: Seconds by which the clock of a provider may be behind: a person who was asked so long before counts as asked now.
SKEW = 120.0


class Fresh(StrEnum):
    """A demand on a sign-in. The values are in addresses and forms of the sign-in page."""

    #: A session of the provider is enough.
    ANY = ""
    #: The provider shall ask the person again; one that does not say when it has done so is believed, and meets no age.
    ASKED = "asked"
    #: The provider must say that it has asked the person again.
    REQUIRED = "required"

    @classmethod
    def read(cls, text: str | None) -> Fresh:
        """Parse the demand of a request; unknown text is `ANY`.

        A user who removes a demand from an address gains nothing: who demanded a new sign-in checks its time again.
        """
        return cls(text) if text in set(cls) else cls.ANY


def is_new(proven: Proven, since: float) -> bool:
    """Whether the provider says that the person has authenticated since the sign-in began (Unix time)."""
    return proven.authenticated_at is not None and proven.authenticated_at >= since - SKEW


def serves(proven: Proven, demand: Fresh, since: float) -> bool:
    """Whether this meets a demand without an age: the provider says that it is new, or was asked and says nothing."""
    return is_new(proven, since) or (demand is not Fresh.ANY and proven.authenticated_at is None)


def check(proven: Proven, demand: Fresh, since: float) -> None:
    """Raises NotFreshError where the person was not asked, FreshnessUnknownError where the age must be known."""
    if demand is Fresh.REQUIRED and proven.authenticated_at is None:
        raise FreshnessUnknownError
    if demand is not Fresh.ANY and not serves(proven, demand, since):
        raise NotFreshError
