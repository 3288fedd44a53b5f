"""Errors of groups. A group that a user may not see does not exist for that user.

GroupError
|- GroupNotFoundError(ref)
|- GroupForbiddenError(reason)       the user may see the group, and may not do this
|- GroupInvalidError(field, reason)  the request makes no sense
|- TooManyGroupsError(limit)         the user is in too many groups to create another one
"""

from __future__ import annotations

from identity.error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
)


class GroupError(CategorizedError):
    """The root of this tree."""


class GroupNotFoundError(GroupError, NotFoundError):
    kind = "group"


class GroupForbiddenError(GroupError, GivenReasonError):
    category = Category.PERMISSION_DENIED


class GroupInvalidError(GroupError, InvalidFieldError):
    pass


class TooManyGroupsError(GroupError, LimitExceededError):
    template = "You are in {self.limit} groups already"
