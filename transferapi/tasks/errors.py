"""What can go wrong when a task is asked for or about.

    TaskError
        TaskNotFoundError(ref)            no such task, or not this user's
        OwnerNotFoundError(user_id)       a filter names a user that there is not
        TasksNotPermittedError()          a manager may not do this to (one of) these tasks
        TaskCompleteError(task_id)        it is done and does not change any more
        TaskNotCompleteError(task_id)     it is not done yet
        StaleStateError(task_id, old)     somebody else moved the task first, or the lease is lost
        RequestError(code, field, reason) the submission is refused; `code` is the one on the wire
        NoCredentialError(endpoint, reason)  the user is not active at this endpoint
        TooManyPendingError(limit)        the user has as many unfinished tasks as he may
        TooMuchError(reason)              a task, or all tasks of its user, would keep more than they may
        LeaseLostError(task_id, epoch)    this worker does not hold the task any more
        AmbiguousPathError(path)          two sources for one destination
        WebhookNotFoundError(ref)         no such webhook, or not this user's
        WebhookDisabledError(webhook_id)  nothing is sent to it until it is enabled again
        TooManyWebhooksError(limit)       the user has as many as he may

Errors of `endpoints.registry` (EndpointNotFoundError, NotPermittedError) pass through unchanged.
"""

from __future__ import annotations

import uuid

from endpoints.models import Endpoint


class TaskError(Exception):
    """The root of this tree."""


class TaskNotFoundError(TaskError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class OwnerNotFoundError(TaskError):
    def __init__(self, user_id: uuid.UUID) -> None:
        super().__init__(user_id)
        self.user_id = user_id


class TasksNotPermittedError(TaskError):
    """It does not tell which: there may be none of that id."""


class TaskCompleteError(TaskError):
    def __init__(self, task_id: uuid.UUID) -> None:
        super().__init__(task_id)
        self.task_id = task_id


class TaskNotCompleteError(TaskError):
    def __init__(self, task_id: uuid.UUID) -> None:
        super().__init__(task_id)
        self.task_id = task_id


class StaleStateError(TaskError):
    """A compare-and-swap found another state than it expected."""

    def __init__(self, task_id: uuid.UUID, old: tuple[str, str]) -> None:
        super().__init__(task_id, old)
        self.task_id = task_id
        self.old = old


class RequestError(TaskError):
    """`field` as in the document ("DATA[3].source_path"); `reason` is a sentence for the user."""

    def __init__(self, field: str, reason: str, code: str = "ClientError.BadRequest") -> None:
        super().__init__(field, reason, code)
        self.field = field
        self.reason = reason
        self.code = code


class NoCredentialError(TaskError):
    """`reason` is a sentence for the user."""

    def __init__(self, endpoint: Endpoint, reason: str) -> None:
        super().__init__(endpoint, reason)
        self.endpoint = endpoint
        self.reason = reason


class TooManyPendingError(TaskError):
    code = "ClientError.LimitExceeded"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class TooMuchError(TaskError):
    """`reason` is a sentence that names the limit and its setting."""

    code = "ClientError.LimitExceeded"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LeaseLostError(TaskError):
    def __init__(self, task_id: uuid.UUID, epoch: int) -> None:
        super().__init__(task_id, epoch)
        self.task_id = task_id
        self.epoch = epoch


class AmbiguousPathError(TaskError):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class WebhookNotFoundError(TaskError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class WebhookDisabledError(TaskError):
    def __init__(self, webhook_id: uuid.UUID) -> None:
        super().__init__(webhook_id)
        self.webhook_id = webhook_id


class TooManyWebhooksError(TaskError):
    code = "ClientError.LimitExceeded"

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit
