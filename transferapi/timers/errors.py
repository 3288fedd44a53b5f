"""Errors of timers. Those of a submission (`transferapi.tasks.errors`, `endpoints.errors`) pass through."""

from __future__ import annotations

from identity.error_categories import Category, InvalidFieldError, Refusal

TIMER_ENDED = Refusal(Category.CONFLICT, "The timer has ended; give it a new schedule", "TimerEnded")
TIMER_HELD = Refusal(
    Category.CONFLICT, "The operator of this service holds the timer, and has to release it", "TimerHeld"
)
TOO_MANY_TIMERS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} timers")


class TimerInvalidError(InvalidFieldError):
    """The request makes no sense."""
