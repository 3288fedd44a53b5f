"""Who asks: a bearer token (RFC 6750 section 2.1), and whether it is good for what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from identity import bearer
from identity.bearer import Bearer
from identity.models import User

from .errors import ConsentRequired

if TYPE_CHECKING:
    from rest_framework.views import APIView

#: A token of ours is far shorter; longer ones are not even hashed.
MAX_TOKEN = 512


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`. A wrong token is an error even where none is needed."""

    def authenticate(self, request: Request) -> tuple[User, Bearer] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        token = token.strip()
        found = bearer.authenticate(token) if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN else None
        if found is None:
            raise AuthenticationFailed("Token is not valid")
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """The token is good for this API. Who came without one (by a session, by a certificate) may do all he may do."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        scope: str = view.scope  # type: ignore[attr-defined]  # of `base.View`
        if isinstance(request.auth, Bearer) and not request.auth.covers(scope):
            raise ConsentRequired(scope)
        return True
