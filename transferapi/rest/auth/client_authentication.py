"""Authentication of an application by its secret (HTTP Basic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oauth2_provider.models import Application
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from identity.provider import clients
from identity.provider.bearer import Bearer


class ClientAuthentication(BaseAuthentication):
    """The application acts as its owner, with the owner's permissions. An application without an owner is refused."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        header = request.headers.get("Authorization", "")
        if header.partition(" ")[0].lower() != "basic":
            return None
        application = clients.authenticate(*(clients.credentials(header, {}) or ("", "")))
        if application is None:
            raise AuthenticationFailed("The client or its secret is not valid")
        return self.principal(application)

    def principal(self, application: Application) -> tuple[Any, Any]:
        if application.user is None:
            raise AuthenticationFailed("This client acts for users only")
        return application.user, Bearer(application.user, None, application.client_id)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


@dataclass(frozen=True)
class ClientItself:
    """The asker of a request that an application makes about itself: no user."""

    application: Application
    pk = None
    is_authenticated = True


class OwnClientAuthentication(ClientAuthentication):
    """The application may only read and delete itself."""

    def principal(self, application: Application) -> tuple[Any, Any]:
        return ClientItself(application), None
