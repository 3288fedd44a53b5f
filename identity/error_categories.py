"""The category of an error: its meaning for the user, whatever interface reports it.

Each package has its own tree of errors; an error that users may see derives from a class below too. An interface
chooses by the category how to report it (REST: `transferapi.rest.http.errors`), and shows `message`.

An error that only keeps its arguments declares them as fields of a dataclass; with `eq=False`, because exceptions are
compared and hashed by identity.

CategorizedError
|- ReasonError                    `reason` is a sentence for people, and what `str` gives
|- GivenReasonError(reason)       the same where whoever raises the error gives the sentence
|- NotFoundError(ref)             the named thing does not exist, or the user may not see it
|- InvalidFieldError(field, reason)
|- LimitExceededError(limit)      the user has as many of these as allowed
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar


class Category(Enum):
    INVALID = auto()  # the request makes no sense; the user can correct it
    PERMISSION_DENIED = auto()
    NOT_FOUND = auto()
    EXISTS = auto()  # a thing of this name or place exists already
    CONFLICT = auto()  # the state of the thing does not allow it
    LIMIT_EXCEEDED = auto()
    TOO_MANY_REQUESTS = auto()  # the same request may succeed later
    INTERNAL = auto()  # this service failed, and the user may know the reason
    NOT_CONFIGURED = auto()  # only the operator of this service can correct it
    EXTERNAL = auto()  # another server failed, refused, or cannot be reached


class CategorizedError(Exception):
    """An error with a category; None: a fault of this service whose reason no user sees."""

    category: ClassVar[Category | None] = None
    #: The message as a format of `str.format`, in which `self` is the error.
    template: ClassVar[str] = "{self.reason}"

    @property
    def message(self) -> str:
        """A sentence for users."""
        return self.template.format(self=self)


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


@dataclass(eq=False)
class NotFoundError(CategorizedError):
    """`ref`: the name in the request. A subclass sets `kind`: the kind of thing, in words."""

    category = Category.NOT_FOUND
    template = "No such {self.kind} '{self.ref}'"
    kind: ClassVar[str]

    ref: object


@dataclass(eq=False)
class InvalidFieldError(CategorizedError):
    """`field`: its name in the document. `reason`: a sentence."""

    category = Category.INVALID
    template = "{self.field}: {self.reason}"

    field: str
    reason: str


@dataclass(eq=False)
class LimitExceededError(CategorizedError):
    category = Category.LIMIT_EXCEEDED

    limit: int


def flaw_of(error: Exception) -> str:
    """The name of an error for programs: "BadPassphrase" for `BadPassphraseError`."""
    return type(error).__name__.removesuffix("Error")
