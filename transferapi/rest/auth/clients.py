"""Applications of users, and those that register themselves (Auth API)."""

from __future__ import annotations

from typing import Any

from oauth2_provider.models import Application
from rest_framework.request import Request
from rest_framework.response import Response

from identity.hidden import Secret
from identity.provider import applications, clients, registration, scopes
from identity.provider.applications import ApplicationSpec
from identity.provider.errors import ClientNotFoundError
from transferapi.rest.http.authentication import NotByApplication, RecentSignIn
from transferapi.rest.http.base import View
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.http.parsing import Document
from transferapi.rest.http.trusted_proxies import address_of
from transferapi.rest.openapi import description

from . import documents
from .client_authentication import ClientItself, OwnClientAuthentication


class ClientView(View):
    """Applications may list and delete applications. They create none: it would outlive the user's consent."""

    scope = scopes.MANAGE_PROJECTS
    #: Some bodies are read before authentication; our web server reads so much without asking the application.
    max_body = 64 << 10

    def get_permissions(self) -> list[Any]:
        own = [NotByApplication(), RecentSignIn()] if self.request.method in ("POST", "PUT") else []
        return [*super().get_permissions(), *own]


class ClientList(ClientView):
    @description.operation("List your applications", answer="clients")
    def get(self, request: Request) -> Response:
        return Response({"clients": [documents.CLIENT.document(one) for one in applications.of_user(self.user)]})

    @description.operation(
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
        document: dict[str, Any] = {"client": documents.CLIENT.document(application)}
        if secret is not None:
            [row] = applications.secrets_of(application)
            document["included"] = {"client_credential": documents.credential(row, secret)}
        return Response(document, status=201, headers={"Cache-Control": "no-store"})

    def check_permissions(self, request: Request) -> None:
        """A program that registers itself has no token yet; `registration` limits it."""
        if not (request.method == "POST" and request.auth is None and _asked(request).has("template_id")):
            super().check_permissions(request)


class ClientDetail(ClientView):
    authentication_classes = (OwnClientAuthentication, *View.authentication_classes)

    @description.operation("Show an application of yours", answer="client_answer")
    def get(self, request: Request, client: str) -> Response:
        return Response({"client": documents.CLIENT.document(self._found(client))})

    @description.operation("Change an application of yours", body="client_change", answer="client_answer")
    def put(self, request: Request, client: str) -> Response:
        found = self._found(client)
        changed = applications.change(found, _spec(_asked(request), found))
        return Response({"client": documents.CLIENT.document(changed)})

    @description.operation("Delete an application, and all tokens that it holds", answer="client_answer")
    def delete(self, request: Request, client: str) -> Response:
        found = self._found(client)
        document = documents.CLIENT.document(found)
        applications.delete(found)
        return Response({"client": document})

    def _found(self, client: str) -> Application:
        """An application of the user. One that shows its secret finds itself, so that it can delete itself."""
        asker: object = self.request.user
        if not isinstance(asker, ClientItself):
            return applications.find(self.user, client)
        if asker.application.client_id != client or self.request.method == "PUT":
            raise ClientNotFoundError
        return asker.application


class CredentialList(ClientView):
    @description.operation("List the secrets of an application, without showing them", answer="credentials")
    def get(self, request: Request, client: str) -> Response:
        rows = applications.secrets_of(applications.find(self.user, client))
        return Response({"credentials": [documents.credential(row) for row in rows]})

    @description.operation("Make a secret of an application", body="credential", answer="credential_answer", status=201)
    def post(self, request: Request, client: str) -> Response:
        asked = Document(Document(request.data).fields.get("credential"), where="credential.")
        found = applications.find(self.user, client)
        row, secret = applications.new_secret(found, asked.required_text("name"))
        document = {"credential": documents.credential(row, secret)}
        return Response(document, status=201, headers={"Cache-Control": "no-store"})


class CredentialDetail(ClientView):
    @description.operation("Delete a secret of an application", answer="credential_answer")
    def delete(self, request: Request, client: str, credential: str) -> Response:
        row = applications.delete_secret(applications.find(self.user, client), credential)
        return Response({"credential": documents.credential(row)})


def _asked(request: Request) -> Document:
    return Document(Document(request.data).fields.get("client"), where="client.")


def _spec(asked: Document, before: Application | None = None) -> ApplicationSpec:
    """Fields that are absent keep their values. Raises BadRequest."""
    given = documents.CLIENT_SPEC.values(asked)
    name, uris = given["name"], given["redirect_uris"]
    if name is None:
        name = str(before.name) if before else asked.refuse_missing("name")
    if uris is None:
        uris = before.redirect_uris.split() if before else []
    public = _is_public(given["client_type"], given["public_client"], before)
    rotate = given["rotate_refresh_tokens"]
    if rotate is None:
        rotate = before is not None and clients.rotates(before)
    algorithm = given["id_token_signed_response_alg"]
    # null takes the choice back.
    if before and "id_token_signed_response_alg" not in asked.fields:
        algorithm = clients.options(before).id_token_algorithm
    return ApplicationSpec(name, public, uris, rotate, algorithm or "")


_PUBLIC, _CONFIDENTIAL = "public_installed_client", ("confidential_client", "client_identity")


def _is_public(kind: str | None, flag: bool | None, before: Application | None) -> bool:
    if kind is not None and kind not in (_PUBLIC, *_CONFIDENTIAL):
        raise BadRequest(f"client.client_type: {_PUBLIC} or {' or '.join(_CONFIDENTIAL)}")
    if kind is None and flag is None:
        return before is not None and not clients.is_confidential(before)
    return kind == _PUBLIC or bool(flag)
