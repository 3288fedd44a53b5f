"""Errors of tasks: of submissions, of questions about tasks, and of webhooks.

    TaskError
        TaskNotFoundError(ref)            no such task, or it belongs to another user
        OwnerNotFoundError(ref)           a filter names a user that does not exist
        TasksNotPermittedError()          a manager may not do this to (one of) these tasks
        TaskCompleteError                 the task is complete and does not change any more
        TaskNotCompleteError              the task is not complete yet
        NothingToRetryError(reason)       no file of the task has failed, or they are not known
        NothingToConfirmError             the task does not wait for an answer about a deletion
        UnknownStateError(task_id)        a newer version has put the task into a state that this one does not know
        StaleStateError(task_id, old)     another process moved the task first, or the lease is lost
        RequestError(field, reason, code) the submission is refused
        NoCredentialError(endpoint, reason)  the user is not active at this endpoint
        TooManyPendingError(limit)        the user has as many unfinished tasks as allowed
        TooMuchError(reason)              a task, or all tasks of its user, would keep more than allowed
        LeaseLostError(task_id, epoch)    this worker does not hold the task any more
        WebhookNotFoundError(ref)         no such webhook, or it belongs to another user
        WebhookDisabledError              nothing is sent to it until it is enabled again
        TooManyWebhooksError(limit)       the user has as many webhooks as allowed

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
    LimitExceededError,
    NotFoundError,
)

if TYPE_CHECKING:  # The engine raises and catches some of these, and lives without Django.
    from endpoints.models import Endpoint


class TaskError(CategorizedError):
    """The root of this tree."""


class TaskNotFoundError(TaskError, NotFoundError):
    kind = "task"


class OwnerNotFoundError(TaskError, NotFoundError):
    kind = "user"


class TasksNotPermittedError(TaskError):
    """The error does not name the task: there may be no task of that id."""

    category = Category.PERMISSION_DENIED
    template = "You do not have permission for this on these tasks"


class TaskCompleteError(TaskError):
    category = Category.CONFLICT
    template = "The task is complete and does not change any more"


class TaskNotCompleteError(TaskError):
    category = Category.CONFLICT
    template = "The task is not done yet; cancel it first"


class NothingToRetryError(TaskError, GivenReasonError):
    category = Category.CONFLICT


class NothingToConfirmError(TaskError):
    category = Category.CONFLICT
    template = "The task does not wait for an answer about a deletion"


class StaleStateError(TaskError):
    """A compare-and-swap found another state than it expected."""


@dataclass(eq=False)
class RequestError(TaskError, InvalidFieldError):
    """`field` as in the document ("DATA[3].source_path"); `reason`: a sentence; `code`: the reason for programs."""

    code: str = "ClientError.BadRequest"


class UnknownStateError(TaskError):
    category = Category.CONFLICT
    template = "A newer version of this service has put this task into a state that this version does not know"


@dataclass(eq=False)
class NoCredentialError(TaskError):
    """`reason` is a sentence for the user."""

    category = Category.CONFLICT

    endpoint: Endpoint
    reason: str


class TooManyPendingError(TaskError, LimitExceededError):
    template = "You have {self.limit} tasks that are not done; wait for some"


class TooMuchError(TaskError, GivenReasonError):
    """`reason` is a sentence that names the limit and its setting."""

    category = Category.LIMIT_EXCEEDED


class LeaseLostError(TaskError):
    """This worker does not hold the task any more."""


class WebhookNotFoundError(TaskError, NotFoundError):
    kind = "webhook"


class WebhookDisabledError(TaskError):
    category = Category.CONFLICT
    template = "The webhook is disabled: enable it first"


class TooManyWebhooksError(TaskError, LimitExceededError):
    template = "A user has at most {self.limit} webhooks"
