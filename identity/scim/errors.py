"""Errors of SCIM. Users and groups that a directory does not manage do not exist for it.

ScimError
|- ScimUserNotFoundError(ref)
|- ScimGroupNotFoundError(ref)
|- ScimTakenError(reason)           another user or group has this name or externalId
|- ScimImmutableError(field, reason)
|- ScimInvalidError(field, reason)
|- ScimNotActivatedError()          staff, the operator or the user has deactivated the user
|- TooManyScimUsersError(limit)
|- TooManyScimGroupsError(limit)
|- TooManyScimMembersError(limit)
|- ScimClientError(field, reason)   of the operator's commands
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


class ScimError(CategorizedError):
    """The root of this tree."""


class ScimUserNotFoundError(ScimError, NotFoundError):
    kind = "user"


class ScimGroupNotFoundError(ScimError, NotFoundError):
    kind = "group"


class ScimTakenError(ScimError, GivenReasonError):
    category = Category.EXISTS


class ScimImmutableError(ScimError, InvalidFieldError):
    pass


class ScimInvalidError(ScimError, InvalidFieldError):
    pass


class ScimClientError(ScimError, InvalidFieldError):
    pass


class ScimNotActivatedError(ScimError):
    category = Category.PERMISSION_DENIED
    reason = "This user was deactivated by the user or by staff of this service, and only staff can activate the user."


class TooManyScimUsersError(ScimError, LimitExceededError):
    template = "This directory may have at most {self.limit} users"


class TooManyScimGroupsError(ScimError, LimitExceededError):
    template = "A directory has at most {self.limit} groups"


class TooManyScimMembersError(ScimError, LimitExceededError):
    template = "A group has at most {self.limit} members"
