"""The category of an error: its meaning for the user, whatever interface reports it.

`Category` is the table of meanings: each category has the HTTP status and the code of its errors. An error that must
have another code writes it down, as `code`. REST, the shell and the pages read both by `endpoints.error_meanings`, and
show `message`. Codes are part of the API: they do not depend on the names of classes.

An error that only keeps its arguments declares them as fields of a dataclass; with `eq=False`, because exceptions are
compared and hashed by identity.

Most errors are values, each a `Refusal`, raised as `RefusedError(VALUE)`. A class exists only where an `except` or
`isinstance` names it. Docstrings name values as they name classes: "Raises TIMER_ENDED".

CategorizedError
|- RefusedError(refusal, facts)   `refusal`: a category, a sentence and a code
|- ReasonError                    `reason` is a sentence for people, and what `str` gives
|- GivenReasonError(reason)       the same where whoever raises the error gives the sentence
|- NotFoundError(ref, kind)       the named thing does not exist, or the user may not see it
|- InvalidFieldError(field, reason, code)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar


class Category(Enum):
    """A category with its HTTP status and its code on the wire."""

    #: The request makes no sense; the user can correct it.
    INVALID = 400, "ClientError.BadRequest"
    PERMISSION_DENIED = 403, "PermissionDenied"
    NOT_FOUND = 404, "ClientError.NotFound"
    #: A thing of this name or place exists already.
    EXISTS = 409, "Exists"
    #: The state of the thing does not allow it.
    CONFLICT = 409, "Conflict"
    LIMIT_EXCEEDED = 409, "ClientError.LimitExceeded"
    #: The same request may succeed later.
    TOO_MANY_REQUESTS = 429, "ClientError.TooManyRequests"
    #: This service failed, and the user may know the reason.
    INTERNAL = 500, "InternalError"
    #: Only the operator of this service can correct it. Clients do not try again after this status.
    NOT_CONFIGURED = 501, "ServiceError.NotConfigured"
    #: Another server failed, refused, or cannot be reached.
    EXTERNAL = 502, "ExternalError"
    #: This service is too busy, or a part of it is away.
    UNAVAILABLE = 503, "ServiceUnavailable"

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code


class CategorizedError(Exception):
    """An error with a category; None: a fault of this service whose reason no user sees."""

    category: Category | None = None
    #: The code on the wire; "": that of the category.
    code: str = ""
    #: The message as a format of `str.format`, in which `self` is the error.
    template: ClassVar[str] = "{self.reason}"

    @property
    def message(self) -> str:
        """A sentence for users."""
        return self.template.format(self=self)

    @property
    def full_message(self) -> str:
        """The message for programs and command lines: it may have several lines."""
        return self.message


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused.

    sentence: for users, as a format of `str.format` with the facts of the case. code: on the wire; "": that of the
    category.
    """

    category: Category
    sentence: str
    code: str = ""


class RefusedError(CategorizedError):
    """A refusal; None: that of the class. facts: the values of the fields of its sentence.

    A subclass is for refusals that are caught together, and one with a refusal of its own is for a single one.
    """

    refusal: Refusal

    def __init__(self, refusal: Refusal | None = None, **facts: object) -> None:
        super().__init__(refusal, facts)
        if refusal is not None:
            self.refusal = refusal
        self.category = self.refusal.category
        self.code = self.refusal.code
        self.facts = facts

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        return self.refusal.sentence.format(**self.facts)


class ReasonError(CategorizedError):
    """The root of a tree whose classes set `reason`. One that is a NotFoundError as well has that base first."""

    reason: str

    def __str__(self) -> str:
        return self.message


class GivenReasonError(CategorizedError):
    """`reason`: a sentence, given by whoever raises the error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotFoundError(CategorizedError):
    """`ref`: the name in the request. `kind`: the kind of thing, in words; a subclass may set it."""

    category = Category.NOT_FOUND
    template = "No such {self.kind} '{self.ref}'"
    kind: str

    def __init__(self, ref: object, kind: str = "") -> None:
        super().__init__(ref)
        self.ref = ref
        if kind:
            self.kind = kind


class InvalidFieldError(CategorizedError):
    """`field`: its name in the document. `reason`: a sentence. `code`: on the wire."""

    category = Category.INVALID
    template = "{self.field}: {self.reason}"

    def __init__(self, field: str, reason: str, code: str = "") -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason
        self.code = code


#: The code of an InvalidFieldError: the field would promise something that this service does not do.
NOT_SUPPORTED = "ClientError.BadRequest.NotSupported"


@dataclass(eq=False)
class LimitExceededError(CategorizedError):
    category = Category.LIMIT_EXCEEDED

    limit: int
