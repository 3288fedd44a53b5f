"""The OAuth2 server as its clients see it: forms over HTTP, and a user who says yes."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.test import Client

from identity import user_names
from identity.models import User
from identity.provider import applications, authorization
from identity.provider.applications import ApplicationSpec
from identity.sign_in_proof import SignInProof
from tests.integration.rest import Answer, read

HERE = "http://127.0.0.1:8000/"
CALLBACK = "https://portal.example.org/callback"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class App:
    """An application, from its own point of view. secret: None if it is public."""

    id: str
    secret: str | None

    @property
    def basic(self) -> dict[str, str]:
        return basic(self.id, self.secret or "")

    def post(self, path: str, form: dict[str, str], headers: dict[str, str] | None = None) -> Answer:
        """POST a form as this application: with Basic, or with its id alone if it has no secret."""
        if headers is None:
            headers = self.basic if self.secret else {}
        return post(path, form if self.secret else {"client_id": self.id, **form}, headers)

    def token(self, **form: str) -> Answer:
        return self.post("/v2/oauth2/token", form)

    def own(self, scope: str) -> Answer:
        """Tokens by its secret alone."""
        return self.token(grant_type="client_credentials", scope=scope)

    def code(self, user: User, scope: str, redirect_uri: str = CALLBACK, *, signed_in_as: str = "", **more: str) -> str:
        """The user says yes; the code that comes of it. signed_in_as: an identity of a provider; "": the own name."""
        asked = authorization.read(self.question(scope, redirect_uri, **more), HERE)
        way = "provider" if signed_in_as else "password"
        proof = SignInProof(datetime.now(UTC), way, signed_in_as or user_names.identity_name(user))
        return answered(authorization.grant(asked, user, proof))["code"]

    def question(self, scope: str, redirect_uri: str = CALLBACK, **more: str) -> str:
        fields = {"client_id": self.id, "redirect_uri": redirect_uri, "response_type": "code", "scope": scope}
        return urlencode({**fields, **more})

    def tokens(self, user: User, scope: str, redirect_uri: str = CALLBACK, **more: str) -> dict[str, Any]:
        """The whole way: the user says yes, the code becomes tokens. Offline unless `access_type` says otherwise."""
        more = {"access_type": "offline", **more}
        verifier = secrets.token_urlsafe(48)
        if self.secret is None:
            more |= {"code_challenge": challenge(verifier), "code_challenge_method": "S256"}
        code = self.code(user, scope, redirect_uri, **more)
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        answer = self.token(**form, **({} if self.secret else {"code_verifier": verifier}))
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.body
        return found


def make(user: User, *redirect_uris: str, public: bool = False, name: str = "portal", rotate: bool = False) -> App:
    application, secret = applications.make(user, ApplicationSpec(name, public, redirect_uris, rotate))
    return App(application.client_id, secret.value if secret else None)


def post(path: str, form: dict[str, str] | str, headers: dict[str, str] | None = None, kind: str = FORM) -> Answer:
    data = form if isinstance(form, str) else urlencode(form)
    return read(Client(raise_request_exception=False).post(path, data, content_type=kind, headers=headers or {}))


def get(path: str, token: str | None = None, **query: str) -> Answer:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return read(Client(raise_request_exception=False).get(path, query, headers=headers))


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


def challenge(verifier: str) -> str:
    """PKCE's S256 (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def answered(location: str) -> dict[str, str]:
    """Return the query parameters of the address of a redirect."""
    return dict(parse_qsl(urlsplit(location).query))


def by_server(tokens: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tokens of an answer, by resource server."""
    return {one["resource_server"]: one for one in [tokens, *tokens["other_tokens"]]}
