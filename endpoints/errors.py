"""What the registry refuses.

What a user may not view does not exist for him; what he may view but not do is refused.

    RegistryError
        EndpointNotFoundError(ref)
        EndpointExistsError(canonical_name)
        EndpointInvalidError(field, reason)
        NotPermittedError(verb, endpoint)
        ServerNotFoundError(endpoint, server_id)
        ServerExistsError(uri)
        TooManyEndpointsError(limit)
"""

from __future__ import annotations

from .models import Endpoint
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


class NotPermittedError(RegistryError):
    def __init__(self, verb: Verb, endpoint: Endpoint) -> None:
        super().__init__(verb, endpoint)
        self.verb = verb
        self.endpoint = endpoint


class ServerNotFoundError(RegistryError):
    def __init__(self, endpoint: Endpoint, server_id: int) -> None:
        super().__init__(endpoint, server_id)
        self.endpoint = endpoint
        self.server_id = server_id


class ServerExistsError(RegistryError):
    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


class TooManyEndpointsError(RegistryError):
    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit
