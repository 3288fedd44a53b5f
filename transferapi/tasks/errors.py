"""Errors of tasks: of submissions, of questions about tasks, and of webhooks.

Errors of `endpoints.registry` (EndpointNotFoundError, NotPermittedError) pass through unchanged. StaleStateError
and LeaseLostError have no category: they reach no user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from identity.error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    InvalidFieldError,
    NotFoundError,
    Refusal,
)

if TYPE_CHECKING:  # The engine raises and catches some of these, and lives without Django.
    from endpoints.models import Endpoint


OWNER_NOT_FOUND = Refusal(Category.NOT_FOUND, "No such user '{ref}'", "UserNotFound")
#: The error does not name the task: there may be no task of that id.
TASKS_NOT_PERMITTED = Refusal(Category.PERMISSION_DENIED, "You do not have permission for this on these tasks")
TASK_COMPLETE = Refusal(Category.CONFLICT, "The task is complete and does not change any more", "TaskComplete")
TASK_NOT_COMPLETE = Refusal(Category.CONFLICT, "The task is not done yet; cancel it first", "TaskNotComplete")
NOTHING_TO_RETRY = Refusal(Category.CONFLICT, "{reason}")
NOTHING_TO_CONFIRM = Refusal(
    Category.CONFLICT, "The task does not wait for an answer about a deletion", "NothingToConfirm"
)
UNKNOWN_STATE = Refusal(
    Category.CONFLICT, "A newer version of this service has put this task into a state that this version does not know"
)
TOO_MANY_PENDING = Refusal(Category.LIMIT_EXCEEDED, "You have {limit} tasks that are not done; wait for some")
WEBHOOK_DISABLED = Refusal(Category.CONFLICT, "The webhook is disabled: enable it first")
TOO_MANY_WEBHOOKS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} webhooks")


class TaskNotFoundError(NotFoundError):
    kind = "task"


class StaleStateError(CategorizedError):
    """A compare-and-swap found another state than it expected."""


class RequestError(InvalidFieldError):
    """`field` as in the document ("DATA[3].source_path"); `reason`: a sentence; `code`: the reason for programs."""


@dataclass(eq=False)
class NoCredentialError(CategorizedError):
    """`reason` is a sentence for the user."""

    category = Category.CONFLICT
    code = "NoCredException"

    endpoint: Endpoint
    reason: str


class TooMuchError(GivenReasonError):
    """`reason` is a sentence that names the limit and its setting."""

    category = Category.LIMIT_EXCEEDED


class LeaseLostError(CategorizedError):
    """This worker does not hold the task any more."""
