"""Errors of changes of a mail address. `reason` is a sentence for people.

MailAddressError
|- AddressPresentError       it is the address of the account already
|- AddressManagedError       a directory sets it (SCIM)
|- NoMailsError              this service sends no mails
|- TooManyChangesError       the user has asked too often today
|- AddressLinkLapsedError    the link was used, is too old, or is for another account
"""

from __future__ import annotations

from identity.error_categories import Category, ReasonError


class MailAddressError(ReasonError):
    """The root of this tree."""

    category = Category.INVALID
    reason = "The mail address is not changed."


class AddressPresentError(MailAddressError):
    reason = "This is your mail address already."


class AddressManagedError(MailAddressError):
    category = Category.PERMISSION_DENIED
    reason = "A directory manages your account, and sets its mail address."


class NoMailsError(MailAddressError):
    category = Category.CONFLICT
    reason = "This service sends no mails: its operator sets your address."


class TooManyChangesError(MailAddressError):
    category = Category.TOO_MANY_REQUESTS
    reason = "You have asked for this too often today. Try again tomorrow."


class AddressLinkLapsedError(MailAddressError):
    category = Category.NOT_FOUND
    reason = "This link was used, is too old, or is for another account. Ask for another one."
