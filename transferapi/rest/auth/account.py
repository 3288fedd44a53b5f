"""A user's credentials besides the password, and the open sessions of the pages.

API tokens, certificate subjects, linked identities and ssh keys are added and removed; passkeys and sessions of the
pages are listed and ended. A browser alone can add a passkey.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from endpoints import registry
from endpoints.permissions import Permission
from identity import certificate_subjects, passkeys, sessions, sign_in_proof, ssh_keys, tokens
from identity import linked_identities as linked
from identity.models import User
from identity.sign_in_proof import SignInProof
from identity.ssh_public_keys import checked
from transferapi.rest.http.authentication import Certified, HasScope, NotByApplication, RecentSignIn
from transferapi.rest.http.base import View, result
from transferapi.rest.http.client_certificates import subject_of
from transferapi.rest.http.errors import BadRequest
from transferapi.rest.openapi import description
from transferapi.rest.openapi.types import wire_time

from . import account_documents as documents

#: Characters of a label of a certificate subject or a token.
MAX_LABEL = tokens.MAX_LABEL


class AccountView(View):
    """The base of views that refuse applications: only users themselves may call them."""

    permission_classes = (IsAuthenticated, NotByApplication, HasScope)


class WaysInView(AccountView):
    """A list of ways to sign in, or of accounts, to which a POST adds one after a recent sign-in only."""

    def get_permissions(self) -> list[Any]:
        return [*super().get_permissions(), *([RecentSignIn()] if self.request.method == "POST" else [])]


class ApiTokens(WaysInView):
    @description.operation("List your API tokens", answer="api_token_list")
    def get(self, request: Request) -> Response:
        return Response(documents.API_TOKEN_LIST.of(tokens.of(self.user)))

    @description.operation("Make an API token", body="api_token", answer="api_token_create_result", status=201)
    def post(self, request: Request) -> Response:
        given = documents.API_TOKEN_REQUEST.read(request.data)
        row, token = tokens.make(self.user, _label(given["label"]), _lifetime(given["expires_in"]))
        return documents.API_TOKEN_CREATED.answer(
            request, id=str(row.pk), token=token.value, expire_time=wire_time(row.expires_at)
        )


class ApiTokenDetail(AccountView):
    @description.operation("Revoke an API token", answer="result")
    def delete(self, request: Request, token: str) -> Response:
        tokens.revoke_own(self.user, token)
        return result(request, "Deleted", "The token is revoked")


class CertificateSubjects(WaysInView):
    @description.operation("List the certificate subjects that you sign in with", answer="certificate_subject_list")
    def get(self, request: Request) -> Response:
        return Response(documents.CERTIFICATE_SUBJECT_LIST.of(certificate_subjects.of(self.user)))

    @description.operation(
        "Sign in with this certificate subject from now on",
        body="certificate_subject",
        answer="certificate_subject",
        status=201,
    )
    def post(self, request: Request) -> Response:
        given = documents.CERTIFICATE_SUBJECT_REQUEST.read(request.data)
        proven = _proven(request)
        subject = given["subject"] or next(iter(proven), None)
        if subject is None:
            raise BadRequest("subject: it is missing, and this connection shows no certificate")
        row = certificate_subjects.add(self.user, subject, _label(given["label"]), proven=proven)
        return Response(documents.CERTIFICATE_SUBJECT.document(row), status=201)


class CertificateSubjectDetail(AccountView):
    @description.operation("Sign in with this certificate subject no more", answer="result")
    def delete(self, request: Request, subject: str) -> Response:
        certificate_subjects.remove(self.user, subject)
        return result(request, "Deleted", "The certificate subject is removed")


class LinkedIdentities(AccountView):
    @description.operation("List your identities of other providers", answer="linked_identity_list")
    def get(self, request: Request) -> Response:
        return Response(documents.LINKED_IDENTITY_LIST.of(linked.of(self.user)))


class LinkedIdentityDetail(AccountView):
    def get_permissions(self) -> list[Any]:
        return [*super().get_permissions(), RecentSignIn()]

    @description.operation("Take an identity off your account, just after you have signed in", answer="result")
    def delete(self, request: Request, identity: str) -> Response:
        """As on the account page: a stolen session or token must not take the ways to sign in from its owner."""
        found = sign_in_proof.present()
        assert isinstance(found, SignInProof)
        linked.check_fresh(found.at.timestamp())
        linked.unlink(self.user, identity, request._request.session.session_key or "")
        return result(request, "Deleted", "The identity is no longer linked")


def _proven(request: Request) -> tuple[str, ...]:
    """The subject of the certificate that came along, besides the token. Raises UntrustedError, BadNameError."""
    if isinstance(request.auth, Certified):
        return (request.auth.subject,)
    found = subject_of(request._request)
    return () if found is None else (found,)


def _label(given: str | None) -> str:
    label = given or ""
    if len(label) > MAX_LABEL or not label.isprintable():
        raise BadRequest(f"label: it is one line of at most {MAX_LABEL} characters")
    return label


def _lifetime(seconds: int | None) -> timedelta | None:
    """Raises BadRequest with the name and the unit of the document."""
    most = int(tokens.MAX_LIFETIME.total_seconds())
    if seconds is not None and not 1 <= seconds <= most:
        raise BadRequest(f"expires_in: it is a number of seconds from 1 to {most}")
    return None if seconds is None else timedelta(seconds=seconds)


class Passkeys(AccountView):
    @description.operation("List your passkeys", answer="passkey_list")
    def get(self, request: Request) -> Response:
        return Response(documents.PASSKEY_LIST.of(passkeys.of(self.user)))


class PasskeyDetail(AccountView):
    @description.operation("Sign in by this passkey no more", answer="result")
    def delete(self, request: Request, passkey: str) -> Response:
        passkeys.remove(self.user, passkey)
        return result(request, "Deleted", "The passkey is removed")


class Sessions(AccountView):
    @description.operation("List your open sessions of the pages", answer="session_list")
    def get(self, request: Request) -> Response:
        found = sessions.open_sessions(self.user, request._request.session.session_key or "")
        return Response(documents.SESSION_LIST.of(found))


class SessionDetail(AccountView):
    @description.operation("End a session of the pages", answer="result")
    def delete(self, request: Request, session: str) -> Response:
        sessions.end(self.user, session)
        return result(request, "Deleted", "The session has ended")


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
