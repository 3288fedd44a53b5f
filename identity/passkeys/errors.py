"""Errors of passkeys. `reason` is a sentence for people; none holds what a browser has sent.

PasskeyError
|- PasskeysUnavailableError   the address of this service cannot have passkeys
|- ChallengeLapsedError       no challenge waits for this answer: used, too old, or of another session
|- PasskeyRefusedError        the answer of the browser does not prove anything
|- PasskeyUnknownError        the passkey is none of this service, or of another user
|- PasskeyCopiedError         its counter went back: somebody has a copy of the key
|- PasskeyExistsError         the passkey is registered already
|- NoPasskeyError             sign-in cannot ask for one
|- PasskeyLabelError          the name is not one line of 1 to 128 characters
|- LastSecondFactorError      nothing would be left that sign-in could ask for after the password
|- LastPasskeyError           without it the user could not sign in any more
|- TooManyPasskeysError(limit)
|- PasskeyNotFoundError(ref)
"""

from __future__ import annotations

from identity.error_categories import Category, LimitExceededError, NotFoundError, ReasonError


class PasskeyError(ReasonError):
    """The root of this tree."""

    category = Category.INVALID
    reason = "The passkey was not accepted."


class PasskeysUnavailableError(PasskeyError):
    category = Category.NOT_CONFIGURED
    reason = "Passkeys need https and a host name: the address of this service has none."


class ChallengeLapsedError(PasskeyError):
    reason = "This took too long, or was answered already. Try again."


class PasskeyRefusedError(PasskeyError):
    reason = "The answer of your browser or device was not accepted. Try again."


class PasskeyUnknownError(PasskeyError):
    reason = "This passkey is not known here. Sign in in another way, and remove it from your device."


class PasskeyCopiedError(PasskeyError):
    category = Category.PERMISSION_DENIED
    reason = "This passkey seems to have been copied, and signs in no more. Sign in in another way, and remove it."


class PasskeyExistsError(PasskeyError):
    category = Category.EXISTS
    reason = "This passkey is registered already."


class NoPasskeyError(PasskeyError):
    category = Category.CONFLICT
    reason = "You have no passkey that sign-in could ask for: add one first."


class PasskeyLabelError(PasskeyError):
    reason = "A name is one line of 1 to 128 characters."


class LastSecondFactorError(PasskeyError):
    category = Category.CONFLICT
    reason = "Sign-in asks for a passkey after your password, and this is the last. Turn that off first."


class LastPasskeyError(PasskeyError):
    category = Category.CONFLICT
    reason = "You could not sign in any more. Set a password, or add a passkey or another identity first."


class TooManyPasskeysError(LimitExceededError, PasskeyError):
    template = "A user has at most {self.limit} passkeys"


class PasskeyNotFoundError(NotFoundError, PasskeyError):
    kind = "passkey"
