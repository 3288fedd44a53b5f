"""What timers refuse.

TimerError
|- TimerNotFoundError(ref)            no such timer, or not this user's
|- TimerInvalidError(field, reason)   what is asked for makes no sense
|- TimerEndedError(timer_id)          it will never run again
|- TooManyTimersError(limit)          this user has as many as he may

What a submission refuses (`transferapi.tasks.errors`, `endpoints.errors`) passes through.
"""

from __future__ import annotations

import uuid


class TimerError(Exception):
    """The root of this tree."""


class TimerNotFoundError(TimerError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class TimerInvalidError(TimerError):
    """`field` by its name in the document; `reason` is a sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class TimerEndedError(TimerError):
    def __init__(self, timer_id: uuid.UUID) -> None:
        super().__init__(timer_id)
        self.timer_id = timer_id


class TooManyTimersError(TimerError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit
