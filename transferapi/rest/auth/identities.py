"""Identities: the signed-in user (OpenID Connect), and others, to share with them (Auth API)."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from identity import linked_identities as linked
from identity.provider import consents, identities, scopes
from identity.provider.bearer import Bearer
from identity.provider.identities import Identity
from transferapi.rest.http.base import View
from transferapi.rest.http.errors import BadRequest, NotFound
from transferapi.rest.http.parsing import parse_id
from transferapi.rest.openapi import description

from . import documents
from .client_authentication import ClientAuthentication

#: Identities in one request.
MAX_IDENTITIES = 100
NOT_PROVISIONED = (
    "Nobody has this name here, and this service makes no account in the name of somebody else: ask them to sign in"
    " here once, and try again"
)


class Userinfo(View):
    """GET and POST, as OpenID Connect Core section 5.3.1 requires."""

    scope = scopes.OPENID

    @description.operation("Say who you are", answer="userinfo")
    def get(self, request: Request) -> Response:
        granted = request.auth.scopes if isinstance(request.auth, Bearer) else None
        return Response(documents.userinfo(self.user, scopes.KNOWN if granted is None else granted))

    @description.operation("Say who you are", answer="userinfo")
    def post(self, request: Request) -> Response:
        return self.get(request)


class AuthView(View):
    """Applications may authenticate with their secret; they act as their owner."""

    authentication_classes = (ClientAuthentication, *View.authentication_classes)


class Directory(AuthView):
    """The SDK looks up users with a token for the profile."""

    @property
    def scope(self) -> str:  # type: ignore[override]
        by_profile = isinstance(self.request.auth, Bearer) and self.request.auth.covers(scopes.PROFILE)
        return scopes.PROFILE if by_profile else scopes.VIEW_IDENTITIES

    def document(self, identity: Identity) -> dict[str, Any]:
        """An application without the scope for mail addresses does not see that of its own user either."""
        auth = self.request.auth
        allowed = not isinstance(auth, Bearer) or auth.covers(scopes.VIEW_IDENTITIES) or auth.covers(scopes.EMAIL)
        return documents.IDENTITY.document(documents.ShownUser(identity, self.user if allowed else None))


class IdentityList(Directory):
    @description.operation("Look up users", answer="identities", query="ids usernames provision")
    def get(self, request: Request) -> Response:
        ids, names = (_words(request, name) for name in ("ids", "usernames"))
        if bool(ids) == bool(names):
            raise BadRequest("ids or usernames: expected one of them, not both")
        refusal = BadRequest("ids: expected UUIDs")
        found = (
            identities.with_ids([parse_id(one, refusal) for one in ids]) if ids else identities.with_usernames(names)
        )
        if names and not found and request.query_params.get("provision", "").lower() in ("true", "1"):
            raise NotFound(NOT_PROVISIONED)
        return Response({"identities": [self.document(one) for one in found]})


class IdentityDetail(Directory):
    @description.operation("Show a user", answer="identity_answer")
    def get(self, request: Request, identity: str) -> Response:
        unknown = NotFound("No such identity")
        found = identities.with_ids([parse_id(identity, unknown)])
        if not found:
            raise unknown
        return Response({"identity": self.document(found[0])})


class Consents(AuthView):
    """The user's own. An application sees what it was granted itself; with `all=true`, what others were granted too."""

    @property
    def scope(self) -> str:  # type: ignore[override]
        auth = self.request.auth
        widest = isinstance(auth, Bearer) and auth.covers(scopes.VIEW_CONSENTS)
        return scopes.VIEW_CONSENTS if widest or self._wants_all() else scopes.OPENID

    def _wants_all(self) -> bool:
        return self.request.query_params.get("all", "").lower() in ("true", "1")

    @description.operation("List what you have allowed to applications", answer="consents", query="all")
    def get(self, request: Request, identity: str) -> Response:
        unknown = NotFound("No such identity")
        if self.user not in linked.people([parse_id(identity, unknown)]).values():
            raise unknown
        client_id = request.auth.client_id if isinstance(request.auth, Bearer) and not self._wants_all() else None
        found = consents.forest(consents.of_user(self.user, client_id))
        return Response({"consents": [documents.CONSENT.document(one) for one in found]})


class IdentityProviders(Directory):
    @description.operation(
        "List the identity providers: this service, and those by which its users sign in",
        answer="identity_providers",
        query="ids domains",
    )
    def get(self, request: Request) -> Response:
        ids, domains = ([word.lower() for word in _words(request, name)] for name in ("ids", "domains"))
        found = identities.find_providers(self.user, ids, domains)
        return Response({"identity_providers": [documents.IDENTITY_PROVIDER.document(one) for one in found]})


def _words(request: Request, name: str) -> list[str]:
    """Raises BadRequest."""
    words = [word.strip() for word in request.query_params.get(name, "").split(",") if word.strip()]
    if len(words) > MAX_IDENTITIES:
        raise BadRequest(f"{name}: at most {MAX_IDENTITIES}")
    return words
