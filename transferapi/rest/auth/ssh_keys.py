"""A user's ssh keys, which sign in to the ssh shell."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import registry
from endpoints.permissions import Permission
from identity import ssh_keys
from identity.models import User
from identity.ssh_public_keys import checked
from transferapi.rest.http.base import result
from transferapi.rest.openapi import description

from . import account_documents as documents
from .account import AccountView, WaysInView


class SshKeys(WaysInView):
    @description.operation("List your ssh keys", answer="ssh_key_list")
    def get(self, request: Request) -> Response:
        return Response(documents.SSH_KEY_LIST.of(ssh_keys.list_of(self.user)))

    @description.operation(
        "Sign in to the ssh shell by this key from now on", body="ssh_key", answer="ssh_key", status=201
    )
    def post(self, request: Request) -> Response:
        given = documents.SSH_KEY_REQUEST.read(request.data)
        restrictions = checked(given["commands"], _endpoints(self.user, given["endpoints"]))
        key = ssh_keys.add(self.user, given["public_key"], given["label"] or "", restrictions, given["expire_time"])
        return Response(documents.SSH_KEY.document(key), status=201)


class SshKeyDetail(AccountView):
    """The key is named by its id or by its fingerprint, which may hold slashes."""

    @description.operation("Sign in by this ssh key no more", answer="result")
    def delete(self, request: Request, key: str) -> Response:
        ssh_keys.remove(self.user, key)
        return result(request, "Deleted", "The ssh key is removed")


def _endpoints(user: User, refs: list[str] | None) -> list[str] | None:
    """Raises EndpointNotFoundError."""
    if refs is None:
        return None
    return [str(registry.resolve(user, ref, Permission.VIEW).pk) for ref in refs]
