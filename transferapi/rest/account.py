"""What a user signs in with, besides the password: his API tokens and certificate subjects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from identity import certificates, tokens
from identity.models import ApiToken, CertificateSubject

from . import schemas
from .auth import Certified, HasScope, NotByApplication
from .base import View, created, listing, result
from .client_certificates import subject_of
from .documents import time
from .errors import BadRequest
from .parsing import Document

#: Characters of a label, and seconds that a token may last where an end is asked for.
MAX_LABEL, MAX_LIFETIME = 128, 10 * 366 * 86400


class AccountView(View):
    """For the user himself, not for applications that he has allowed something."""

    permission_classes = (IsAuthenticated, NotByApplication, HasScope)


class ApiTokens(AccountView):
    @schemas.operation("List your API tokens", answer="api_token_list")
    def get(self, request: Request) -> Response:
        return Response(listing("api_token_list", [_token(row) for row in tokens.of(self.user)]))

    @schemas.operation("Make an API token", body="api_token", answer="api_token_create_result", status=201)
    def post(self, request: Request) -> Response:
        document = Document(request.data, "api_token")
        row, token = tokens.make(self.user, _label(document), _lifetime(document))
        more = {"id": str(row.pk), "token": token.value, "expire_time": time(row.expires_at)}
        message = "The token is made; this is the only time it is shown"
        return created(request, "api_token_create_result", message, 201, more)


class ApiTokenDetail(AccountView):
    @schemas.operation("Revoke an API token", answer="result")
    def delete(self, request: Request, token: str) -> Response:
        tokens.revoke_own(self.user, token)
        return result(request, "Deleted", "The token is revoked")


class CertificateSubjects(AccountView):
    @schemas.operation("List the certificate subjects that you sign in with", answer="certificate_subject_list")
    def get(self, request: Request) -> Response:
        rows = [_subject(row) for row in certificates.of(self.user)]
        return Response(listing("certificate_subject_list", rows))

    @schemas.operation(
        "Sign in with this certificate subject from now on",
        body="certificate_subject",
        answer="certificate_subject",
        status=201,
    )
    def post(self, request: Request) -> Response:
        document = Document(request.data, "certificate_subject")
        proven = _proven(request)
        subject = document.text("subject") or next(iter(proven), None)
        if subject is None:
            raise BadRequest("subject: it is missing, and this connection shows no certificate")
        return Response(_subject(certificates.add(self.user, subject, _label(document), proven=proven)), status=201)


class CertificateSubjectDetail(AccountView):
    @schemas.operation("Sign in with this certificate subject no more", answer="result")
    def delete(self, request: Request, subject: str) -> Response:
        certificates.remove(self.user, subject)
        return result(request, "Deleted", "The certificate subject is removed")


def _token(row: ApiToken) -> dict[str, Any]:
    return {
        "DATA_TYPE": "api_token",
        "id": str(row.pk),
        "label": row.label,
        "created_time": time(row.created_at),
        "last_used_time": time(row.last_used_at),
        "expire_time": time(row.expires_at),
    }


def _subject(row: CertificateSubject) -> dict[str, Any]:
    return {
        "DATA_TYPE": "certificate_subject",
        "id": str(row.pk),
        "subject": row.subject,
        "label": row.label,
        "created_time": time(row.created_at),
    }


def _proven(request: Request) -> tuple[str, ...]:
    """The subject of the certificate that came along, besides the token. -> UntrustedError, BadNameError"""
    if isinstance(request.auth, Certified):
        return (request.auth.subject,)
    found = subject_of(request._request)
    return () if found is None else (found,)


def _label(document: Document) -> str:
    label = document.text("label") or ""
    if len(label) > MAX_LABEL or not label.isprintable():
        raise BadRequest(f"label: it is one line of at most {MAX_LABEL} characters")
    return label


def _lifetime(document: Document) -> timedelta | None:
    seconds = document.number("expires_in")
    if seconds is not None and not 1 <= seconds <= MAX_LIFETIME:
        raise BadRequest(f"expires_in: it is a number of seconds from 1 to {MAX_LIFETIME}")
    return None if seconds is None else timedelta(seconds=seconds)
