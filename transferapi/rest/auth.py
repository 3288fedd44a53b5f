"""Who asks: a bearer token (RFC 6750 section 2.1), a session or a certificate, and whether it is good for this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from endpoints.gridftp.trust import UntrustedError
from endpoints.gridftp.written_names import BadNameError
from identity import bearer, certificates
from identity.bearer import Bearer
from identity.models import User

from .client_certificates import subject_of
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


class SessionAuthentication(BaseAuthentication):
    """Who signed in by the pages. What changes something must bring the CSRF token too (X-CSRFToken)."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = request._request.user
        if not isinstance(user, User) or not user.is_active:
            return None
        refusal = _CsrfCheck(lambda _: HttpResponse())
        refusal.process_request(request._request)
        if refusal.process_view(request._request, _nothing, (), {}) is not None:
            raise PermissionDenied("This needs the CSRF token of your session in the header X-CSRFToken")
        return user, None


class CertificateAuthentication(BaseAuthentication):
    """A TLS client certificate whose subject a user has registered. Nobody becomes a user by it.

    Browsers show certificates for whatever page makes them ask, as they send cookies: what another site's page sends is
    refused.
    """

    def authenticate(self, request: Request) -> tuple[User, Certified] | None:
        try:
            subject = subject_of(request._request)
        except (UntrustedError, BadNameError) as error:
            raise AuthenticationFailed(f"The client certificate is not accepted: {error.reason}") from None
        if subject is None:
            return None
        user = certificates.user_of(subject)
        if user is None:
            raise AuthenticationFailed(f"No user has registered the certificate subject {subject}")
        if request.method not in _SAFE and not _is_of_our_origin(request._request):
            raise PermissionDenied("A page of another site asked for this")
        return user, Certified(subject)


@dataclass(frozen=True, slots=True)
class Certified:
    """What `request.auth` is where a certificate proved the user."""

    subject: str


class NotByApplication(BasePermission):
    """What only the user himself may do: with an application's token he would outlive the consent that he gave."""

    message = "An application cannot do this for you: sign in yourself, or use an API token"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return not (isinstance(request.auth, Bearer) and request.auth.client_id is not None)


_SAFE = ("GET", "HEAD", "OPTIONS")


class _CsrfCheck(CsrfViewMiddleware):
    """Django's own check, asked for its opinion."""

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        return HttpResponse(status=403)


def _nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _is_of_our_origin(request: HttpRequest) -> bool:
    """Programs name no origin; browsers do with everything that changes something."""
    origin = request.headers.get("Origin")
    return origin is None or origin == f"{request.scheme}://{request.get_host()}"
