"""Applications of users, and those that register themselves (Auth API)."""

from __future__ import annotations

from typing import Any

from oauth2_provider.models import Application
from rest_framework.request import Request
from rest_framework.response import Response

from identity.hidden import Secret
from identity.provider import applications, clients, registration, scopes
from identity.provider.applications import Spec
from identity.provider.errors import ClientNotFoundError

from . import documents_auth, schemas
from .auth import NotByApplication
from .base import View
from .client_auth import ClientItself, OwnClientAuthentication
from .errors import BadRequest
from .front import address_of
from .parsing import Document


class ClientView(View):
    """Applications see applications, and delete them; they make none that would outlive the user's consent."""

    scope = scopes.MANAGE_PROJECTS
    #: Some of it is read before anybody has signed in; our web server reads so much without asking us.
    max_body = 64 << 10

    def get_permissions(self) -> list[Any]:
        own = [NotByApplication()] if self.request.method in ("POST", "PUT") else []
        return [*super().get_permissions(), *own]


class ClientList(ClientView):
    @schemas.operation("List your applications", answer="clients")
    def get(self, request: Request) -> Response:
        return Response({"clients": [documents_auth.client(one) for one in applications.of_user(self.user)]})

    @schemas.operation(
        "Make an application of yours; without a token: register a program by its template",
        body="client",
        answer="client_made",
        status=201,
    )
    def post(self, request: Request) -> Response:
        asked = _asked(request)
        if template := asked.text("template_id"):
            address = address_of(request._request)
            secret: Secret | None
            application, secret = registration.register(template, asked.text("name") or "", address)
        else:
            application, secret = applications.make(self.user, _spec(asked))
        document: dict[str, Any] = {"client": documents_auth.client(application)}
        if secret is not None:
            [row] = applications.secrets_of(application)
            document["included"] = {"client_credential": documents_auth.credential(row, secret)}
        return Response(document, status=201, headers={"Cache-Control": "no-store"})

    def check_permissions(self, request: Request) -> None:
        """A program that registers itself has no token yet: what it may do `registration` bounds."""
        if not (request.method == "POST" and request.auth is None and _asked(request).has("template_id")):
            super().check_permissions(request)


class ClientDetail(ClientView):
    authentication_classes = (OwnClientAuthentication, *View.authentication_classes)

    @schemas.operation("Show an application of yours", answer="client_answer")
    def get(self, request: Request, client: str) -> Response:
        return Response({"client": documents_auth.client(self._found(client))})

    @schemas.operation("Change an application of yours", body="client_change", answer="client_answer")
    def put(self, request: Request, client: str) -> Response:
        found = self._found(client)
        changed = applications.change(found, _spec(_asked(request), found))
        return Response({"client": documents_auth.client(changed)})

    @schemas.operation("Delete an application, and all tokens that it holds", answer="client_answer")
    def delete(self, request: Request, client: str) -> Response:
        found = self._found(client)
        document = documents_auth.client(found)
        applications.delete(found)
        return Response({"client": document})

    def _found(self, client: str) -> Application:
        """The user's own; one that shows its secret finds itself, so that it can go when it is not needed any more."""
        asker: object = self.request.user
        if not isinstance(asker, ClientItself):
            return applications.find(self.user, client)
        if asker.application.client_id != client or self.request.method == "PUT":
            raise ClientNotFoundError
        return asker.application


class CredentialList(ClientView):
    @schemas.operation("List the secrets of an application, without showing them", answer="credentials")
    def get(self, request: Request, client: str) -> Response:
        rows = applications.secrets_of(applications.find(self.user, client))
        return Response({"credentials": [documents_auth.credential(row) for row in rows]})

    @schemas.operation("Make a secret of an application", body="credential", answer="credential_answer", status=201)
    def post(self, request: Request, client: str) -> Response:
        asked = Document(Document(request.data).fields.get("credential"), where="credential.")
        found = applications.find(self.user, client)
        row, secret = applications.new_secret(found, asked.required_text("name"))
        document = {"credential": documents_auth.credential(row, secret)}
        return Response(document, status=201, headers={"Cache-Control": "no-store"})


class CredentialDetail(ClientView):
    @schemas.operation("Delete a secret of an application", answer="credential_answer")
    def delete(self, request: Request, client: str, credential: str) -> Response:
        row = applications.delete_secret(applications.find(self.user, client), credential)
        return Response({"credential": documents_auth.credential(row)})


def _asked(request: Request) -> Document:
    return Document(Document(request.data).fields.get("client"), where="client.")


def _spec(asked: Document, before: Application | None = None) -> Spec:
    """What is left out is as before. Raises BadRequest."""
    uris = asked.fields.get("redirect_uris")
    if uris is None:
        uris = before.redirect_uris.split() if before else []
    if not isinstance(uris, list) or not all(isinstance(one, str) for one in uris):
        raise BadRequest("client.redirect_uris: a list of addresses is wanted here")
    name = asked.text("name") if before is None or asked.has("name") else str(before.name)
    if name is None:
        raise BadRequest("client.name: is missing")
    return Spec(name, _is_public(asked, before), uris)


_PUBLIC, _CONFIDENTIAL = "public_installed_client", ("confidential_client", "client_identity")


def _is_public(asked: Document, before: Application | None) -> bool:
    kind = asked.text("client_type")
    if kind is not None and kind not in (_PUBLIC, *_CONFIDENTIAL):
        raise BadRequest(f"client.client_type: {_PUBLIC} or {' or '.join(_CONFIDENTIAL)}")
    if kind is None and not asked.has("public_client"):
        return before is not None and not clients.is_confidential(before)
    return kind == _PUBLIC or bool(asked.flag("public_client"))
