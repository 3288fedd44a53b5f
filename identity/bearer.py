"""Whose a bearer token is, and what it is good for: API tokens of ours, and access tokens of the OAuth2 server."""

from __future__ import annotations

from dataclasses import dataclass

from . import tokens
from .models import User
from .provider import issue, scopes


@dataclass(frozen=True, slots=True)
class Bearer:
    """scopes None: everything that the user may do himself."""

    user: User
    scopes: frozenset[str] | None = None
    #: The application that speaks for him; None: a token that he made himself.
    client_id: str | None = None

    def covers(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


def authenticate(token: str) -> Bearer | None:
    """None when it is nobody's, expired or revoked, or its user is not active. One query, by the token's digest."""
    if (user := tokens.authenticate(token)) is not None:
        return Bearer(user)
    if (found := issue.find(token)) is not None:
        return Bearer(found.user, scopes.covered(found.scope), found.application.client_id)
    return None
