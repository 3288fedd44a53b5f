"""Errors of one-time codes. `reason` is a sentence for people; none holds a code or a secret.

OneTimeCodeError
|- CodesEnabledError      sign-in asks this user for codes already
|- CodesNotEnabledError   it does not; or no enrolment was begun
|- CodeWrongError         not the code of this time, and not a recovery code
|- CodeUsedError          the code is right, and was used before
|- CodesUnreadableError   the secret cannot be decrypted: only a recovery code, or the operator, helps
"""

from __future__ import annotations

from identity.error_categories import Category, ReasonError


class OneTimeCodeError(ReasonError):
    """The root of this tree."""

    category = Category.INVALID
    reason = "The one-time code was not accepted."


class CodesEnabledError(OneTimeCodeError):
    category = Category.CONFLICT
    reason = "Your one-time codes are on already."


class CodesNotEnabledError(OneTimeCodeError):
    category = Category.CONFLICT
    reason = "Your one-time codes are not on: begin with a new secret."


class CodeWrongError(OneTimeCodeError):
    reason = "This is not the present one-time code. Check the clock of the device that shows it."


class CodeUsedError(OneTimeCodeError):
    reason = "This one-time code was used already. Wait for the next one."


class CodesUnreadableError(OneTimeCodeError):
    category = Category.NOT_CONFIGURED
    reason = (
        "The service cannot read the secret of your one-time codes. Sign in with a recovery code, or ask the operator."
    )
