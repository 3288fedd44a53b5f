"""Errors of sign-up.

SignUpError
|- SignUpClosedError             only the operator makes accounts here
|- InvitationRequiredError       an invitation is required
|- InvitationRefusedError        it was used, has expired, is wrong, or is for another address
|- DomainRefusedError(domains)   the address is of none of these mail domains
|- AddressRefusedError           it is no mail address
|- AddressNotProvenError         nobody has proven that the address is this person's
|- AccountExistsError            the address, which is proven, has an account, active or not
|- NameRefusedError(reason)      a user name that is taken, or does not do
|- SignUpLinkLapsedError         the link of the mail was used, or is too old
|- TooManySignUpsError           too many requests wait, or too many mails were sent today
|- InvitationNotFoundError(ref)
|- InvitationInvalidError(field, reason)
|- TooManyInvitationsError(limit)
"""

from __future__ import annotations

from collections.abc import Sequence

from identity.error_categories import (
    Category,
    GivenReasonError,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
    ReasonError,
)


class SignUpError(ReasonError):
    """The root of this tree. `reason` is a sentence for people."""

    category = Category.PERMISSION_DENIED
    reason = "You cannot make an account here."


class SignUpClosedError(SignUpError):
    reason = "The operator of this service makes the accounts. Ask there for one."


class InvitationRequiredError(SignUpError):
    reason = "You need an invitation to make an account here."


class InvitationRefusedError(SignUpError):
    reason = "This invitation was used, is too old, or is for another mail address."


class DomainRefusedError(SignUpError):
    """domains: the mail domains that are admitted."""

    def __init__(self, domains: Sequence[str]) -> None:
        super().__init__(domains)
        self.domains = tuple(domains)
        self.reason = f"You need a mail address of {', '.join(domains)}, or an invitation."


class AddressRefusedError(SignUpError):
    category = Category.INVALID
    reason = "This is no mail address."


class AddressNotProvenError(SignUpError):
    reason = "Nobody has proven that this mail address is yours."


class AccountExistsError(SignUpError):
    """Only for a person who has proven the address: nobody else learns of accounts."""

    category = Category.EXISTS
    reason = "Your mail address has an account here. Sign in to it, and link this identity on your account page."


class NameRefusedError(GivenReasonError, SignUpError):
    category = Category.INVALID


class SignUpLinkLapsedError(SignUpError):
    category = Category.NOT_FOUND
    reason = "This link was used, or is too old. Ask for another one."


class TooManySignUpsError(SignUpError):
    category = Category.TOO_MANY_REQUESTS
    reason = "Too many people sign up at present. Try again later."


class InvitationNotFoundError(NotFoundError, SignUpError):
    kind = "invitation"


class InvitationInvalidError(InvalidFieldError, SignUpError):
    pass


class TooManyInvitationsError(LimitExceededError, SignUpError):
    template = "There are {self.limit} open invitations already; take some back"
