"""The agents of endpoints, as the people who manage these see them."""

from __future__ import annotations

from endpoints import registry
from endpoints.models import Agent, Endpoint
from endpoints.permissions import Permission
from identity.models import User

from .errors import NoAgentError


def of(user: User, ref: str) -> Agent:
    """The agent of an endpoint that this user manages. Raises the errors of `registry.resolve`, NoAgentError."""
    return row_of(registry.resolve(user, ref, Permission.MANAGE))


def row_of(endpoint: Endpoint) -> Agent:
    """Raises NoAgentError."""
    found = Agent.objects.filter(pk=endpoint.pk).first() if endpoint.personal else None
    if found is None:
        raise NoAgentError
    return found
