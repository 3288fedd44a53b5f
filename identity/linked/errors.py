"""Errors of linked identities. `reason` is a sentence for people; none holds what a provider has sent.

LinkedIdentityError
|- IdentityNotUsableError      the provider named no person by whom a user could be found again
|- IdentityInactiveError(user) its user is not active
|- IdentityTakenError          another user has linked it
|- IdentityNotFoundError(ref)  no such identity, or not one of this user
|- LastWayInError              without it the user could not sign in any more
|- ProofTooOldError            the session, or the proof of the provider, is too old
|- TooManyIdentitiesError(limit)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from identity.error_categories import Category, LimitExceededError, NotFoundError, ReasonError

if TYPE_CHECKING:
    from identity.models import User


class LinkedIdentityError(ReasonError):
    """The root of this tree."""

    category = Category.INVALID
    reason = "The identity was not accepted."


class IdentityNotUsableError(LinkedIdentityError):
    category = Category.EXTERNAL
    reason = "The provider did not say who you are in a way that this service can use."


class IdentityInactiveError(LinkedIdentityError):
    category = Category.PERMISSION_DENIED
    reason = "The user of this identity is not active. Ask those who run this service."

    def __init__(self, user: User) -> None:
        super().__init__(user.pk)
        self.user = user


class IdentityTakenError(LinkedIdentityError):
    category = Category.EXISTS
    reason = "This identity belongs to another user of this service. It must be unlinked there first."


class IdentityNotFoundError(NotFoundError, LinkedIdentityError):
    kind = "identity"


class LastWayInError(LinkedIdentityError):
    category = Category.CONFLICT
    reason = "You could not sign in any more. Set a password, or add a passkey or another identity first."


class ProofTooOldError(LinkedIdentityError):
    category = Category.PERMISSION_DENIED
    reason = "Too much time has passed. Sign in again, and then at the provider."


class TooManyIdentitiesError(LimitExceededError, LinkedIdentityError):
    template = "A user has at most {self.limit} linked identities"
