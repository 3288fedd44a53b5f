"""Who asks: a bearer token (RFC 6750 section 2.1)."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from identity import tokens
from identity.models import User

#: A token of ours is far shorter; longer ones are not even hashed.
MAX_TOKEN = 512


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`. A wrong token is an error even where none is needed."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        token = token.strip()
        user = tokens.authenticate(token) if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN else None
        if user is None:
            raise AuthenticationFailed("Token is not valid")
        return user, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
