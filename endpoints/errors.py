"""What the registry refuses.

What a user may not view does not exist for him; what he may view but not do is refused.

    RegistryError
        EndpointNotFoundError(ref)
        EndpointExistsError(canonical_name)
        EndpointInvalidError(field, reason)
            FieldNotSupportedError(field, reason)
        NotPermittedError(verb, endpoint)
        PathNotPermittedError(endpoint, path, write)
        ServerNotFoundError(endpoint, server_id)
        ServerExistsError(uri)
        TooManyEndpointsError(limit)
        EndpointDeletedError(ref)         he had a bookmark of it
        BookmarkNotFoundError(ref)
        BookmarkExistsError(name)
        BookmarkInvalidError(field, reason)
        TooManyBookmarksError(limit)
        NotSharedError(endpoint)                 there are access rules on shared endpoints only
        RuleNotFoundError(ref)
        RuleExistsError(path)                    that principal has one for that path
        TooManyRulesError(limit)
        SymlinkRefusedError(endpoint)            no symbolic links are made on a shared endpoint
        RoleNotFoundError(ref)
        RoleExistsError(role)
        OwnerStaysError(endpoint)                nobody takes the owner's role away
        TooManyRolesError(limit)
        PauseRuleNotFoundError(ref)
        PauseRuleNotEditableError(rule)          those who run the host have made it
        TooManyPauseRulesError(limit)
        OperationPausedError(endpoint, operation, messages)

And what activation refuses:

    ActivationError(reason)
        NotActivatedError(endpoint, reason)      there is no valid credential of this user
        RequirementError(field, reason)          what he filled in makes no sense
        CredentialRefusedError(flaw, reason)     the credential is not good enough
        DelegationUnknownError(reason)           a proxy for a request that we do not know
        TooManyWaitingError(reason)              others wait for such servers already; later there is a place
"""

from __future__ import annotations

from .models import Endpoint, PauseRule
from .permissions import Verb


class RegistryError(Exception):
    """The root of this tree."""


class EndpointNotFoundError(RegistryError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class EndpointExistsError(RegistryError):
    def __init__(self, canonical_name: str) -> None:
        super().__init__(canonical_name)
        self.canonical_name = canonical_name


class EndpointInvalidError(RegistryError):
    """`field` by its name in the document; `reason` is a sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class FieldNotSupportedError(EndpointInvalidError):
    """It would promise what is not kept here."""


class NotPermittedError(RegistryError):
    def __init__(self, verb: Verb, endpoint: Endpoint) -> None:
        super().__init__(verb, endpoint)
        self.verb = verb
        self.endpoint = endpoint


class PathNotPermittedError(RegistryError):
    """No rule of this shared endpoint gives the user this path; path: as he named it."""

    def __init__(self, endpoint: Endpoint, path: str, *, write: bool) -> None:
        super().__init__(endpoint, path, write)
        self.endpoint = endpoint
        self.path = path
        self.write = write


class ServerNotFoundError(RegistryError):
    def __init__(self, endpoint: Endpoint, server_id: int) -> None:
        super().__init__(endpoint, server_id)
        self.endpoint = endpoint
        self.server_id = server_id


class ServerExistsError(RegistryError):
    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


class NotSharedError(RegistryError):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.endpoint = endpoint


class SymlinkRefusedError(RegistryError):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.endpoint = endpoint


class RuleNotFoundError(RegistryError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class RuleExistsError(RegistryError):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class TooManyRulesError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class RoleNotFoundError(RegistryError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class RoleExistsError(RegistryError):
    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.role = role


class OwnerStaysError(RegistryError):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.endpoint = endpoint


class TooManyRolesError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class TooManyEndpointsError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class EndpointDeletedError(RegistryError):
    """It is gone for this user, who has seen it once."""

    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class BookmarkNotFoundError(RegistryError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class BookmarkExistsError(RegistryError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class BookmarkInvalidError(RegistryError):
    """`field` by its name in the document; `reason` is a sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason


class TooManyBookmarksError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class PauseRuleNotFoundError(RegistryError):
    def __init__(self, ref: str) -> None:
        super().__init__(ref)
        self.ref = ref


class PauseRuleNotEditableError(RegistryError):
    def __init__(self, rule: PauseRule) -> None:
        super().__init__(rule)
        self.rule = rule


class TooManyPauseRulesError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class OperationPausedError(RegistryError):
    """`operation`: the flag of the rules that stop it (`pausing.Operation`); `messages`: what they say, or nothing."""

    def __init__(self, endpoint: Endpoint, operation: str, messages: tuple[str, ...]) -> None:
        super().__init__(endpoint, operation, messages)
        self.endpoint = endpoint
        self.operation = operation
        self.messages = messages


class ActivationError(Exception):
    """The root of this tree. `reason` is a sentence for the user, and holds nothing of what he kept secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotActivatedError(ActivationError):
    def __init__(self, endpoint: Endpoint, reason: str) -> None:
        super().__init__(reason)
        self.endpoint = endpoint


class RequirementError(ActivationError):
    """`field`: "TYPE.NAME" of the requirement, or DATA for all of them."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class CredentialRefusedError(ActivationError):
    """`flaw`: what is the matter in a word (Malformed, Expired, Limited ...), for programs."""

    def __init__(self, flaw: str, reason: str) -> None:
        super().__init__(reason)
        self.flaw = flaw


class DelegationUnknownError(ActivationError):
    """No request was made for this proxy chain, or it is used up or too old."""


class TooManyWaitingError(ActivationError):
    def __init__(self) -> None:
        super().__init__("Too many requests wait for servers of endpoints just now; try again in some seconds.")


def flaw_of(error: Exception) -> str:
    """What an error is called on the wire, behind its family: `BadPassphraseError` is "BadPassphrase"."""
    return type(error).__name__.removesuffix("Error")
