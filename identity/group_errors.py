"""What groups refuse. A group that one may not see does not exist.

GroupError
|- GroupNotFoundError(ref)
|- GroupForbiddenError(reason)       he sees it, and may not do this
|- GroupInvalidError(field, reason)  what is asked for makes no sense
|- TooManyGroupsError(limit)         this user is in as many as one may be who makes another
"""

from __future__ import annotations


class GroupError(Exception):
    """The root of this tree."""


class GroupNotFoundError(GroupError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class GroupForbiddenError(GroupError):
    """`reason` is a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GroupInvalidError(GroupError):
    """`field` by its name in the document; `reason` is a sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class TooManyGroupsError(GroupError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit
