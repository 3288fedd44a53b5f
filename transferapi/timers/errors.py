"""Errors of timers.

TimerError
|- TimerNotFoundError(ref)            no such timer, or it belongs to another user
|- TimerInvalidError(field, reason)   the request makes no sense
|- TimerEndedError                    the timer will never run again
|- TimerHeldError                     the operator of the service holds the timer
|- TooManyTimersError(limit)          the user has as many timers as allowed

The errors of a submission (`transferapi.tasks.errors`, `endpoints.errors`) pass through.
"""

from __future__ import annotations

from identity.error_categories import (
    CategorizedError,
    Category,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
)


class TimerError(CategorizedError):
    """The root of this tree."""


class TimerNotFoundError(TimerError, NotFoundError):
    kind = "timer"


class TimerInvalidError(TimerError, InvalidFieldError):
    pass


class TimerEndedError(TimerError):
    category = Category.CONFLICT
    template = "The timer has ended; give it a new schedule"


class TimerHeldError(TimerError):
    category = Category.CONFLICT
    template = "The operator of this service holds the timer, and has to release it"


class TooManyTimersError(TimerError, LimitExceededError):
    template = "A user has at most {self.limit} timers"
