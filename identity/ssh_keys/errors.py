"""Errors of the ssh public keys by which users sign in. No message holds the text that was given.

SshKeyError
|- KeyInvalidError(reason)                not a public key that can sign in; a private key was given, DSA, too short ...
|- KeyFieldInvalidError(field, reason)    the label, the expiry or the restrictions of a key
|- KeyExistsError(fingerprint)            this user has this key already
|- TooManyKeysError(limit)                this user has the maximum number
|- KeyNotFoundError(ref)                  no such key, or not one of this user
"""

from __future__ import annotations

from identity.error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
)


class SshKeyError(CategorizedError):
    """The root of this tree."""


class KeyInvalidError(SshKeyError, GivenReasonError):
    """`reason` is a sentence that names what is wrong with the text, and what to give instead."""

    category = Category.INVALID
    template = "public_key: {self.reason}"


class KeyFieldInvalidError(SshKeyError, InvalidFieldError):
    pass


class KeyExistsError(SshKeyError):
    category = Category.EXISTS
    template = "You have the key {self.fingerprint} already"

    def __init__(self, fingerprint: str) -> None:
        super().__init__(fingerprint)
        self.fingerprint = fingerprint


class TooManyKeysError(SshKeyError, LimitExceededError):
    template = "A user has at most {self.limit} ssh keys"


class KeyNotFoundError(SshKeyError, NotFoundError):
    kind = "ssh key"
