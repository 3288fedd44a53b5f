"""Bearer tokens: authenticates API tokens and access tokens of the OAuth2 server, and gives their scopes."""

from __future__ import annotations

from dataclasses import dataclass

from identity import tokens
from identity.models import User
from identity.sign_in_proof import SignInProof

from . import issue, scopes


@dataclass(frozen=True, slots=True)
class Bearer:
    """An authenticated request. scopes None: everything that the user may do."""

    user: User
    scopes: frozenset[str] | None = None
    #: The application that acts for the user; None: the user's own API token.
    client_id: str | None = None
    #: When and how the user signed in, for the consent behind the token; None: no person did.
    proof: SignInProof | None = None

    def covers(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


def authenticate(token: str) -> Bearer | None:
    """None when the token is unknown, expired or revoked, or its user is inactive. One query, by the token's digest."""
    if (user := tokens.authenticate(token)) is not None:
        return Bearer(user)
    if (found := issue.find(token)) is not None:
        return Bearer(found.user, scopes.covered(found.scope), found.application.client_id, issue.proof_of(found))
    return None
