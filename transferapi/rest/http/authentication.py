"""Authenticates requests by a bearer token (RFC 6750 section 2.1), a session or a certificate, and checks the scope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from identity import certificate_subjects, sessions, sign_in_proof, user_names
from identity.gsi.errors import UntrustedError
from identity.gsi.name_parsing import BadNameError
from identity.models import User
from identity.provider import bearer
from identity.provider.bearer import Bearer
from identity.sign_in_proof import SignInProof
from transferapi.rest.middleware import Middleware

from .client_certificates import subject_of
from .errors import TOKEN_HEADER, ConsentRequired

if TYPE_CHECKING:
    from rest_framework.views import APIView

#: A token of this service is far shorter. Longer strings are rejected without computing a digest.
MAX_TOKEN = 512
#: Names in the session: when the user signed in (Unix time), and with which identity.
SIGNED_IN_AT, SIGNED_IN_WITH = "signed_in_at", "signed_in_with"


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer TOKEN`. A wrong token is an error even where no token is required."""

    def authenticate(self, request: Request) -> tuple[User, Bearer] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        token = token.strip()
        found = bearer.authenticate(token) if scheme.lower() == "bearer" and 0 < len(token) <= MAX_TOKEN else None
        if found is None:
            raise AuthenticationFailed(_refusal(scheme))
        sign_in_proof.replace(found.proof)
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def _refusal(scheme: str) -> str:
    """Nothing of the header is repeated but `Basic`: it may be a token."""
    if scheme.lower() == "bearer":
        return f"Token is not valid: it may have expired, or has been revoked. Send {TOKEN_HEADER}"
    other = "Basic is" if scheme.lower() == "basic" else "Other schemes are"
    return f"Send {TOKEN_HEADER}. {other} not read here"


class HasScope(BasePermission):
    """The token covers the scope of this API. A request without a token (by session or certificate) has all scopes."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        scope: str = view.scope  # type: ignore[attr-defined]  # of `base.View`
        if isinstance(request.auth, Bearer) and not request.auth.covers(scope):
            raise ConsentRequired(scope)
        return True


class SessionAuthentication(BaseAuthentication):
    """A session of the pages. A request that changes something must send the CSRF token too (X-CSRFToken)."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = request._request.user
        if not isinstance(user, User) or not user.is_active:
            return None
        check = CSRFCheck(lambda _: HttpResponse())
        check.process_request(request._request)
        if check.process_view(request._request, lambda _: HttpResponse(), (), {}):
            raise PermissionDenied("This needs the CSRF token of your session in the header X-CSRFToken")
        return user, None


class CertificateAuthentication(BaseAuthentication):
    """A TLS client certificate whose subject a user has registered. This does not create users.

    A browser sends its certificate with requests of any page, as it sends cookies. So requests that the page of another
    site causes are refused.
    """

    def authenticate(self, request: Request) -> tuple[User, Certified] | None:
        try:
            subject = subject_of(request._request)
        except (UntrustedError, BadNameError) as error:
            raise AuthenticationFailed(f"The client certificate is not accepted: {error.reason}") from None
        if subject is None:
            return None
        user = certificate_subjects.user_of(subject)
        if user is None:
            raise AuthenticationFailed(f"No user has registered the certificate subject {subject}")
        if request.method not in _SAFE and not _is_of_our_origin(request._request):
            raise PermissionDenied("A page of another site asked for this")
        sign_in_proof.replace(SignInProof(datetime.now(UTC), "certificate", user_names.identity_name(user)))
        return user, Certified(subject)


@dataclass(frozen=True, slots=True)
class Certified:
    """The value of `request.auth` where a certificate authenticated the user."""

    subject: str


class NotByApplication(BasePermission):
    """Allows only the user, without an application: an application could gain more than its consent, and for longer."""

    message = "An application cannot do this for you: sign in yourself, or use an API token"

    def has_permission(self, request: Request, view: APIView) -> bool:
        return not (isinstance(request.auth, Bearer) and request.auth.client_id is not None)


class RecentSignIn(BasePermission):
    """The proof that the pages ask for where a way in is made, or an account ends: a recent sign-in, or a certificate.

    A token is none, however new it is: whoever has stolen one must gain nothing that outlives it.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Raises PermissionDenied."""
        found = sign_in_proof.present()
        if not isinstance(found, SignInProof):
            raise PermissionDenied(NO_SIGN_IN)
        if not found.is_recent:
            raise PermissionDenied("Too much time has passed since you signed in: sign in again")
        return True


_SAFE = ("GET", "HEAD", "OPTIONS")
NO_SIGN_IN = "A token is no sign-in: sign in to the pages and use your session, or send your certificate"


def _is_of_our_origin(request: HttpRequest) -> bool:
    """Whether a page of this site sent it. Browsers send Origin with all that changes something; programs send none."""
    origin = request.headers.get("Origin")
    return origin is None or origin == f"{request.scheme}://{request.get_host()}"


class SessionProof(Middleware):
    """Middleware: the session counts as the proof of a request, unless a token or certificate comes with it."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with sign_in_proof.proven_by(lambda: of_session(request)):
            return self._get_response(request)


def of_session(request: HttpRequest) -> SignInProof | None:
    """None if nobody is signed in."""
    user = request.user
    if not isinstance(user, User):
        return None
    session = request.session
    at = datetime.fromtimestamp(float(session.get(SIGNED_IN_AT, 0.0)), UTC)
    origin = session.get(sessions.ORIGIN, {})
    identity = str(session.get(SIGNED_IN_WITH, "")) or user_names.identity_name(user)
    return SignInProof(at, str(origin.get("way", "")), identity)
