"""Errors of SCIM. Users and groups that a directory does not manage do not exist for it."""

from __future__ import annotations

from identity.error_categories import Category, InvalidFieldError, Refusal

#: Another user or group has this name or externalId.
SCIM_TAKEN = Refusal(Category.EXISTS, "{reason}")
SCIM_NOT_ACTIVATED = Refusal(
    Category.PERMISSION_DENIED,
    "This user was deactivated by the user or by staff of this service, and only staff can activate the user.",
)
TOO_MANY_SCIM_USERS = Refusal(Category.LIMIT_EXCEEDED, "This directory may have at most {limit} users")
TOO_MANY_SCIM_USERS_EVER = Refusal(
    Category.LIMIT_EXCEEDED,
    "This directory has added {limit} users, those included that it has deleted: the operator may allow it more "
    "(waybill scim token NAME --users N)",
)
TOO_MANY_SCIM_GROUPS = Refusal(Category.LIMIT_EXCEEDED, "A directory has at most {limit} groups")
TOO_MANY_SCIM_MEMBERS = Refusal(Category.LIMIT_EXCEEDED, "A group has at most {limit} members")


class ScimImmutableError(InvalidFieldError):
    """The field cannot be changed."""
