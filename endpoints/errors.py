"""Errors of the registry and of activation, each with its category (`identity.error_categories`).

An endpoint that a user may not view does not exist for this user; an action that a user may not do on an endpoint that
the user may view is refused.

    RegistryError
        EndpointNotFoundError(ref)
        EndpointExistsError(canonical_name)
        EndpointInvalidError(field, reason)
            FieldNotSupportedError(field, reason)
        NotPermittedError(verb, endpoint)
        PathNotPermittedError(endpoint, path)
        ServerNotFoundError(ref)
        ServerExistsError(uri)
        TooManyEndpointsError(limit)
            TooManyNewEndpointsError(limit)      the user has created so many in a day, deleted ones included
        EndpointsFixedError                      a session that is restricted to some endpoints creates none
        EndpointDeletedError(ref)                the user had a bookmark of it
        BookmarkNotFoundError(ref)
        BookmarkExistsError(name)
        BookmarkInvalidError(field, reason)
        TooManyBookmarksError(limit)
        NotSharedError(endpoint)                 only shared endpoints have access rules
        RuleNotFoundError(ref)
        RuleExistsError(path)                    the principal has a rule for this path
        TooManyRulesError(limit)
        SymlinkRefusedError(endpoint)            no symbolic link is made on a shared endpoint
        RoleNotFoundError(ref)
        RoleExistsError(role)
        OwnerStaysError(endpoint)                nobody can take the owner's role away
        TooManyRolesError(limit)
        PauseRuleNotFoundError(ref)
        PauseRuleNotEditableError                a manager of the host endpoint made the rule
        TooManyPauseRulesError(limit)
        OperationPausedError(endpoint, operation, messages)
        NoFileError(path)                        a folder, or another thing without content
        FileTooLargeError(limit)                 the file must be moved by a transfer
        UploadOffsetError(received)              the upload goes on from another offset
            UploadLostError                      nothing is left: it begins anew
        UploadBusyError                          another request writes a part of this upload
        TooManyUploadsError(limit)
        TargetExistsError(path)                   the upload was to replace nothing

    ActivationError(reason)
        NotActivatedError(endpoint, reason)      the user has no valid credential for this endpoint
        RequirementError(field, reason)          a value of the form makes no sense
        CredentialRefusedError(flaw, reason)     the credential is not good enough
        DelegationUnknownError(reason)           a proxy for a request that is not known
        TooManyWaitingError(reason)              too many requests wait for such servers; it may succeed later
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from identity.error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
)
from identity.models import User

from .models import Endpoint
from .permissions import Permission


class RegistryError(CategorizedError):
    """The root of this tree."""


@dataclass(eq=False)
class _EndpointError(RegistryError):
    """An error that names nothing but its endpoint."""

    endpoint: Endpoint


class EndpointNotFoundError(RegistryError, NotFoundError):
    kind = "endpoint"


@dataclass(eq=False)
class EndpointExistsError(RegistryError):
    category = Category.EXISTS
    template = "An endpoint named '{self.canonical_name}' exists already"

    canonical_name: str


class EndpointInvalidError(RegistryError, InvalidFieldError):
    pass


class FieldNotSupportedError(EndpointInvalidError):
    """The field would promise something that this service does not do."""


@dataclass(eq=False)
class NotPermittedError(RegistryError):
    category = Category.PERMISSION_DENIED
    template = "You do not have permission for this on this endpoint"

    verb: Permission
    endpoint: Endpoint


class StepUpRequiredError(RegistryError):
    """The endpoint demands another sign-in. domains: of the identity; minutes: its greatest age; empty, None: any.

    second_factor: whether a password alone does not suffice.
    """

    category = Category.PERMISSION_DENIED
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
class PathNotPermittedError(RegistryError):
    """No rule of this shared endpoint gives the user this path. path: as the user named it."""

    category = Category.PERMISSION_DENIED
    template = "No access rule gives you '{self.path}'"

    endpoint: Endpoint
    path: str


class ServerNotFoundError(RegistryError, NotFoundError):
    kind = "server"


@dataclass(eq=False)
class ServerExistsError(RegistryError):
    category = Category.EXISTS
    template = "The endpoint has the server {self.uri} already"

    uri: str


class NotSharedError(_EndpointError):
    category = Category.INVALID
    template = "This is not a shared endpoint, so it has no access rules"


class SymlinkRefusedError(_EndpointError):
    category = Category.PERMISSION_DENIED
    template = "No symbolic links are made on shared endpoints"


class RuleNotFoundError(RegistryError, NotFoundError):
    kind = "access rule"


@dataclass(eq=False)
class RuleExistsError(RegistryError):
    category = Category.EXISTS
    template = "There is a rule for that principal and the path '{self.path}'"

    path: str


class TooManyRulesError(RegistryError, LimitExceededError):
    template = "A shared endpoint has at most {self.limit} rules"


class RoleNotFoundError(RegistryError, NotFoundError):
    kind = "role"


@dataclass(eq=False)
class RoleExistsError(RegistryError):
    category = Category.EXISTS
    template = "The principal is {self.role} already"

    role: str


class OwnerStaysError(_EndpointError):
    category = Category.CONFLICT
    template = "The owner of an endpoint stays its administrator"


class TooManyRolesError(RegistryError, LimitExceededError):
    template = "An endpoint has at most {self.limit} roles"


class TooManyEndpointsError(RegistryError, LimitExceededError):
    template = "A user has at most {self.limit} endpoints"


class TooManyNewEndpointsError(TooManyEndpointsError):
    template = "A user creates at most {self.limit} endpoints in a day, deleted ones included: go on tomorrow"


class EndpointsFixedError(RegistryError):
    category = Category.PERMISSION_DENIED
    template = "The key of this session is restricted to some endpoints: it cannot create others"


class EndpointDeletedError(RegistryError, NotFoundError):
    """The endpoint is gone for this user, who has seen it once."""

    kind = "endpoint"
    template = "The endpoint '{self.ref}' is gone"


class BookmarkNotFoundError(RegistryError, NotFoundError):
    kind = "bookmark"


@dataclass(eq=False)
class BookmarkExistsError(RegistryError):
    category = Category.EXISTS
    template = "You have a bookmark named '{self.name}' already"

    name: str


class BookmarkInvalidError(RegistryError, InvalidFieldError):
    pass


class TooManyBookmarksError(RegistryError, LimitExceededError):
    template = "A user has at most {self.limit} bookmarks"


class PauseRuleNotFoundError(RegistryError, NotFoundError):
    kind = "pause rule"


class PauseRuleNotEditableError(RegistryError):
    category = Category.PERMISSION_DENIED
    template = "A manager of the host made this pause rule"


class TooManyPauseRulesError(RegistryError, LimitExceededError):
    template = "An endpoint has at most {self.limit} rules"


@dataclass(eq=False)
class OperationPausedError(RegistryError):
    """`operation`: the flag of the rules that stop it (`pause_rules.PausableOperation`); `messages`: their texts."""

    category = Category.CONFLICT
    template = "A manager of the endpoint has paused this"

    endpoint: Endpoint
    operation: str
    messages: tuple[str, ...]


@dataclass(eq=False)
class NoFileError(RegistryError):
    category = Category.INVALID
    template = "This is not a file, so that it has no content: {self.path}"

    path: str


class FileTooLargeError(RegistryError, LimitExceededError):
    """`limit`: in octets."""

    template = "The service passes on at most {self.limit} octets at a time; move more with a transfer."


@dataclass(eq=False)
class UploadOffsetError(RegistryError):
    """`received`: the offset from which the upload goes on."""

    category = Category.CONFLICT
    template = "The upload goes on from octet {self.received}."

    received: int


class UploadLostError(UploadOffsetError):
    """The octets that had arrived were removed, or another beginning of this upload has taken their place."""

    template = "Nothing is left of this upload: begin again with the first octet."

    def __init__(self) -> None:
        super().__init__(0)


class UploadBusyError(RegistryError):
    """It goes on as soon as that request has ended."""

    category = Category.TOO_MANY_REQUESTS
    template = "Another request writes this file just now; ask how much has been received, and go on there."
    #: Seconds.
    retry_after = 5


class TooManyUploadsError(RegistryError, LimitExceededError):
    template = "A user has at most {self.limit} unfinished uploads; finish some, or delete them"


@dataclass(eq=False)
class TargetExistsError(RegistryError):
    category = Category.EXISTS
    template = "There is something of this name already, and nothing is to be replaced: {self.path}"

    path: str


class ActivationError(GivenReasonError):
    """The root of this tree. `reason` is a sentence for the user that holds no secret."""


class NotActivatedError(ActivationError):
    category = Category.INVALID

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


class DelegationUnknownError(ActivationError):
    """No request was made for this proxy chain, or it was used already, or it is too old."""

    category = Category.INVALID


class TooManyWaitingError(ActivationError):
    category = Category.TOO_MANY_REQUESTS

    def __init__(self) -> None:
        super().__init__("Too many requests wait for servers of endpoints just now; try again in some seconds.")
