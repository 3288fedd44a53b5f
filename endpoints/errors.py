"""Errors of the registry and of activation, each with its category (`identity.error_categories`).

An endpoint that a user may not view does not exist for this user; an action that a user may not do on an endpoint that
the user may view is refused.

Most of them are values: a sentence, with the facts of the case in braces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from identity.error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    NotFoundError,
    Refusal,
)
from identity.models import User

from .models import Endpoint
from .permissions import Permission

ENDPOINT_EXISTS = Refusal(Category.EXISTS, "An endpoint named '{name}' exists already")
SERVER_EXISTS = Refusal(Category.EXISTS, "The endpoint has the server {uri} already")
SYMLINK_REFUSED = Refusal(
    Category.PERMISSION_DENIED, "No symbolic links are made on shared endpoints", "EndpointPermissionDenied"
)
RULE_EXISTS = Refusal(Category.EXISTS, "There is a rule for that principal and the path '{path}'")
TOO_MANY_RULES = Refusal(Category.LIMIT_EXCEEDED, "A shared endpoint has at most {limit} rules")
ROLE_EXISTS = Refusal(Category.EXISTS, "The principal is {role} already")
OWNER_STAYS = Refusal(Category.CONFLICT, "The owner of an endpoint stays its administrator")
TOO_MANY_ROLES = Refusal(Category.LIMIT_EXCEEDED, "An endpoint has at most {limit} roles")
TOO_MANY_ENDPOINTS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} endpoints")
TOO_MANY_NEW_ENDPOINTS = Refusal(
    Category.LIMIT_EXCEEDED, "A user creates at most {limit} endpoints in a day, deleted ones included: go on tomorrow"
)
ENDPOINTS_FIXED = Refusal(
    Category.PERMISSION_DENIED, "The key of this session is restricted to some endpoints: it cannot create others"
)
#: The endpoint is gone for this user, who has seen it once.
ENDPOINT_DELETED = Refusal(Category.NOT_FOUND, "The endpoint '{ref}' is gone", "EndpointDeleted")
BOOKMARK_EXISTS = Refusal(Category.EXISTS, "You have a bookmark named '{name}' already")
TOO_MANY_BOOKMARKS = Refusal(Category.LIMIT_EXCEEDED, "A user has at most {limit} bookmarks")
PAUSE_RULE_NOT_EDITABLE = Refusal(Category.PERMISSION_DENIED, "A manager of the host made this pause rule")
TOO_MANY_PAUSE_RULES = Refusal(Category.LIMIT_EXCEEDED, "An endpoint has at most {limit} rules")
NO_FILE = Refusal(Category.INVALID, "This is not a file, so that it has no content: {path}", "ClientError.NotAFile")
#: limit: octets.
FILE_TOO_LARGE = Refusal(
    Category.LIMIT_EXCEEDED,
    "The service passes on at most {limit} octets at a time; move more with a transfer.",
    "ClientError.FileTooLarge",
)
#: limit: files and folders.
TOO_MANY_FILES = Refusal(
    Category.LIMIT_EXCEEDED,
    "The service passes on at most {limit} files and folders at a time; move more with a transfer.",
    "ClientError.FileTooLarge",
)
TOO_MANY_UPLOADS = Refusal(
    Category.LIMIT_EXCEEDED, "A user has at most {limit} unfinished uploads; finish some, or delete them"
)
#: No request was made for this proxy chain, or it was used already, or it is too old.
DELEGATION_UNKNOWN = Refusal(Category.INVALID, "{reason}", "ClientError.ActivationExpired")


class EndpointNotFoundError(NotFoundError):
    code = "EndpointNotFound"
    kind = "endpoint"


@dataclass(eq=False)
class NotPermittedError(CategorizedError):
    category = Category.PERMISSION_DENIED
    template = "You do not have permission for this on this endpoint"

    verb: Permission
    endpoint: Endpoint


class StepUpRequiredError(CategorizedError):
    """The endpoint demands another sign-in. domains: of the identity; minutes: its greatest age; empty, None: any.

    second_factor: whether a password alone does not suffice.
    """

    category = Category.PERMISSION_DENIED
    code = "AuthorizationRequired"
    template = "{self.reason}"

    def __init__(
        self, endpoint: Endpoint, user: User, domains: Sequence[str], minutes: int | None, *, second_factor: bool
    ) -> None:
        super().__init__(endpoint, domains, minutes, second_factor)
        self.endpoint = endpoint
        self.user_id = user.pk
        self.domains = list(domains)
        self.minutes = minutes
        self.second_factor = second_factor
        by = f" with an identity of {' or '.join(domains)}" if domains else ""
        age = f" not longer than {minutes} minutes ago" if minutes else ""
        comma = "," if by or age else ""
        factor = f"{comma} by a passkey or by a one-time code after the password" if second_factor else ""
        self.reason = f"This endpoint asks that you have signed in{by}{age}{factor}. Sign in again."

    @property
    def authorization_parameters(self) -> dict[str, object]:
        """Parameters for the authorization endpoint (globus-sdk, GARE); `globus` shows the command for them."""
        by_domain: dict[str, object] = {"session_required_single_domain": self.domains}
        who = by_domain if self.domains else {"session_required_identities": [str(self.user_id)]}
        factor = {"session_required_mfa": True} if self.second_factor else {}
        return {**who, **factor, "session_message": self.message, "prompt": "login"}

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate (RFC 9470, 3)."""
        age = f", max_age={self.minutes * 60}" if self.minutes else ""
        return f'Bearer error="insufficient_user_authentication", error_description="Sign in again"{age}'


@dataclass(eq=False)
class PathNotPermittedError(CategorizedError):
    """No rule of this shared endpoint gives the user this path. path: as the user named it."""

    category = Category.PERMISSION_DENIED
    code = "EndpointPermissionDenied"
    template = "No access rule gives you '{self.path}'"

    endpoint: Endpoint
    path: str


@dataclass(eq=False)
class NotSharedError(CategorizedError):
    category = Category.INVALID
    template = "This is not a shared endpoint, so it has no access rules"

    endpoint: Endpoint


class BookmarkNotFoundError(NotFoundError):
    code = "BookmarkNotFound"
    kind = "bookmark"


@dataclass(eq=False)
class OperationPausedError(CategorizedError):
    """`operation`: the flag of the rules that stop it (`pause_rules.PausableOperation`); `messages`: their texts."""

    category = Category.CONFLICT
    template = "A manager of the endpoint has paused this"

    endpoint: Endpoint
    operation: str
    messages: tuple[str, ...]

    def __post_init__(self) -> None:
        #: The endpoint has not failed, and a client that tries again has no success: it sees this by the code.
        self.code = f"ExternalError.{_PAUSED[self.operation]}.GCPaused"

    @property
    def full_message(self) -> str:
        endpoint = self.endpoint
        lines = [f"Endpoint: {endpoint.owner.username}#{endpoint.name} ({endpoint.pk})", f"Message: {self.message}"]
        lines += ["---", *(f"Details: {message}" for message in self.messages)] if self.messages else []
        return "\n".join(lines)


#: The names of operations in codes, by the flag of the pause rule that stops them.
_PAUSED = {
    "pause_ls": "DirListingFailed",
    "pause_mkdir": "MkdirFailed",
    "pause_rename": "RenameFailed",
    "pause_symlink": "SymlinkFailed",
    "pause_task_transfer_read": "DownloadFailed",
    "pause_task_transfer_write": "UploadFailed",
}


@dataclass(eq=False)
class UploadOffsetError(CategorizedError):
    """`received`: the offset from which the upload goes on."""

    category = Category.CONFLICT
    code = "UploadOffset"
    template = "The upload goes on from octet {self.received}."

    received: int


class UploadLostError(UploadOffsetError):
    """The octets that had arrived were removed, or another beginning of this upload has taken their place."""

    template = "Nothing is left of this upload: begin again with the first octet."

    def __init__(self) -> None:
        super().__init__(0)


class UploadBusyError(CategorizedError):
    """It goes on as soon as that request has ended."""

    category = Category.TOO_MANY_REQUESTS
    code = "UploadBusy"
    template = "Another request writes this file just now; ask how much has been received, and go on there."
    #: Seconds.
    retry_after = 5


@dataclass(eq=False)
class TargetExistsError(CategorizedError):
    category = Category.EXISTS
    template = "There is something of this name already, and nothing is to be replaced: {self.path}"

    path: str


class ActivationError(GivenReasonError):
    """The root of this tree. `reason` is a sentence for the user that holds no secret."""


class NotActivatedError(ActivationError):
    category = Category.INVALID
    code = "ClientError.ActivationRequired"

    def __init__(self, endpoint: Endpoint, reason: str) -> None:
        super().__init__(reason)
        self.endpoint = endpoint


class RequirementError(ActivationError):
    """`field`: "TYPE.NAME" of the requirement, or DATA for all of them."""

    category = Category.INVALID
    template = "{self.field}: {self.reason}"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class CredentialRefusedError(ActivationError):
    """`flaw`: the problem in one word for programs (Malformed, Expired, Limited ...)."""

    category = Category.INVALID

    def __init__(self, flaw: str, reason: str) -> None:
        super().__init__(reason)
        self.flaw = flaw
        self.code = f"ClientError.CredentialRefused.{flaw}"


class TooManyWaitingError(ActivationError):
    category = Category.TOO_MANY_REQUESTS

    def __init__(self) -> None:
        super().__init__("Too many requests wait for servers of endpoints just now; try again in some seconds.")
