"""The authorization endpoint: read an application's request, and grant or refuse it as the user answers.

A page asks the user. Nothing is stored meanwhile: the address of the page holds the whole request. Consent is not
remembered: the user is asked each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from oauth2_provider.models import Application
from oauthlib.common import add_params_to_uri
from oauthlib.oauth2.rfc6749 import errors

from identity import linked_identities as linked
from identity import user_names
from identity.models import User
from identity.sign_in_proof import SignInProof

from . import clients, openid, scopes
from .errors import RequestNotTrustedError, RequestRefusedError, ScopeSyntaxError
from .scopes import Scope
from .server import server
from .validator import HERE

#: Octets of a query: every known parameter and a long `state` fit.
MAX_QUERY = 16 * 1024
MAX_FIELDS = 50
MAX_NONCE = 255
MAX_MESSAGE = 1000
#: Parameters that this server handles itself or ignores: answers always use the query, claims follow from scopes, and
#: scopes may have dependencies in brackets.
_UNHEARD = {"claims", "response_mode", "request", "request_uri", "registration", "scope"}
_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")
_ADDRESS = "https://waybill.invalid/v2/oauth2/authorize"


@dataclass(frozen=True, slots=True, repr=False)
class AuthorizationRequest:
    """An authorization request. `fields` are the parameters as received, each with its last value."""

    application: Application
    scopes: tuple[Scope, ...]
    redirect_uri: str
    fields: Mapping[str, str]
    #: The request as it is passed to oauthlib's server.
    _query: str
    _here: str

    @property
    def state(self) -> str | None:
        return self.fields.get("state")

    @property
    def redirect_host(self) -> str:
        """The host that receives the answer, shown to the user."""
        return urlsplit(self.redirect_uri).netloc

    @property
    def shows_code(self) -> bool:
        """Whether the answer is a code that the user copies from a page."""
        return clients.is_code_page(self.redirect_uri, self._here)

    @property
    def offline(self) -> bool:
        """Whether the application asks for access while the user is away, until withdrawn."""
        return self.fields.get("access_type") == "offline" or any(scope.name == scopes.OFFLINE for scope in self.scopes)

    @property
    def prompt(self) -> frozenset[str]:
        """none, login, consent, select_account. A request with `session_required_*` also requires a new sign-in."""
        words = frozenset(self.fields.get("prompt", "").split())
        return words | {"login"} if any(name.startswith("session_required_") for name in self.fields) else words

    @property
    def message(self) -> str:
        """The application's message to the user."""
        return self.fields.get("session_message", "")[:MAX_MESSAGE]

    @property
    def login_hint(self) -> str:
        return self.fields.get("login_hint", "")[:MAX_MESSAGE]

    @property
    def required_domains(self) -> list[str]:
        """The domains of which the identity shall have one; none: any."""
        return sorted(_words(self, "session_required_single_domain"))

    @property
    def max_age(self) -> int | None:
        """The maximum age of the user's sign-in in seconds; None: any age."""
        text = self.fields.get("max_age", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def read(query: str, here: str) -> AuthorizationRequest:
    """Parse and check a query string. here: the address at which the user reached this service.

    Raises RequestNotTrustedError when client or redirect URI is wrong: the user is then not redirected.
    Raises RequestRefusedError for another error, which is sent to the application.
    """
    given = _parsed(query)
    fields = dict(given)
    plain = urlencode([(name, value) for name, value in given if name not in _UNHEARD] + _scope(given))
    try:
        names, credentials = server().validate_authorization_request(f"{_ADDRESS}?{plain}", headers={HERE: here})
        request = credentials["request"]
        _check(names, request)
    except errors.FatalClientError as error:
        raise RequestNotTrustedError(error.description or str(error.error)) from None
    except errors.OAuth2Error as error:
        raise RequestRefusedError(_with_issuer(error.in_uri(str(error.redirect_uri)))) from None
    known = tuple(scope for scope in map(scopes.find, names) if scope)
    return AuthorizationRequest(request.client, known, request.redirect_uri, fields, plain, here)


def _parsed(query: str) -> list[tuple[str, str]]:
    try:
        if len(query) > MAX_QUERY or "\0" in query:
            raise ValueError(query)
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise RequestNotTrustedError("The question is malformed") from None


def _scope(given: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameter `scope` for oauthlib: the scopes of the request without their dependencies, or the default one.

    A malformed list is replaced by the name of no scope: oauthlib then checks the client first, and refuses the scope.
    """
    asked = [value for name, value in given if name == "scope"]
    try:
        return [("scope", " ".join(scopes.roots(text) or [scopes.DEFAULT])) for text in asked or [""]]
    except ScopeSyntaxError:
        return [("scope", "malformed")]


def _check(names: list[str], request: Any) -> None:
    """The checks that oauthlib does not make. Raises OAuth2Error."""
    if request.code_challenge is not None and (
        request.code_challenge_method != "S256" or not _CHALLENGE.match(request.code_challenge)
    ):
        raise errors.InvalidRequestError("The code_challenge must be made by S256", request=request)
    nonce = request.nonce or ""
    if len(nonce) > MAX_NONCE or not nonce.isprintable():
        raise errors.InvalidRequestError(f"The nonce has at most {MAX_NONCE} printable characters", request=request)
    if scopes.OPENID in names and not openid.is_configured():
        raise errors.InvalidScopeError("This service has no key to sign identities with", request=request)


def reason_to_refuse(request: AuthorizationRequest, user: User, proof: SignInProof) -> str | None:
    """Why this user, signed in like this, cannot answer this request, in words; None when the user can."""
    if wanted := _words(request, "session_required_identities"):
        own, proven, names = _names(user, proof)
        if not wanted <= names:
            return f"It asks for somebody else: {', '.join(sorted(wanted))}"
        # The own name stands for the account: any of its identities will do.
        if not wanted & (own | proven):
            return f"It asks that you sign in as {' or '.join(sorted(wanted))}"
    domains = request.required_domains
    if domains and not (proof.domain in domains and linked.is_held(user, proof.identity)):
        return f"It asks that you sign in with an identity of {' or '.join(domains)}"
    if request.fields.get("session_required_mfa", "").lower() in ("true", "1") and not proof.is_multi_factor:
        return "It asks for a second factor: a passkey, or a one-time code after your password"
    if _words(request, "session_required_policies"):
        return "It asks for policies that this service does not know"
    return None


def _words(request: AuthorizationRequest, name: str) -> set[str]:
    return {word.strip().lower() for word in request.fields.get(name, "").split(",") if word.strip()}


def _names(user: User, proof: SignInProof) -> tuple[set[str], set[str], set[str]]:
    """Ids and names, in lower case: of the user's own identity, of that of this sign-in, and of all."""
    own = {str(user.pk), user.username.lower(), user_names.identity_name(user).lower()}
    rows = [{str(row.pk), row.username.lower()} for row in linked.of(user)]
    proven = [row for row in rows if proof.identity.lower() in row]
    return own, set().union(*proven), own.union(*rows)


def grant(request: AuthorizationRequest, user: User, proof: SignInProof) -> str:
    """Grant the request. Returns the redirect address with the code. proof: when and how the user authenticated.

    Raises RequestNotTrustedError, RequestRefusedError when the request has become invalid since it was read.
    """
    extra = {"user": user, "proof": proof, "requested": request.fields.get("scope", "")}
    names = [scope.name for scope in request.scopes]
    try:
        headers, _, _ = server().create_authorization_response(
            f"{_ADDRESS}?{request._query}", headers={HERE: request._here}, scopes=names, credentials=extra
        )
    except errors.FatalClientError as error:
        raise RequestNotTrustedError(error.description or str(error.error)) from None
    return _with_issuer(headers["Location"])


#: Descriptions of error codes (RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6).
_REFUSALS = {
    "access_denied": "The user has refused",
    "login_required": "The user is not signed in",
    "consent_required": "The user must be asked",
}


def refuse(request: AuthorizationRequest, error: str = "access_denied") -> str:
    """Refuse the request. Returns the redirect address with the error."""
    parameters = [("error", error), ("error_description", _REFUSALS[error])]
    if request.state is not None:
        parameters.append(("state", request.state))
    return _with_issuer(add_params_to_uri(request.redirect_uri, parameters))


def _with_issuer(address: str) -> str:
    """Add the issuer (RFC 9207), so that a client of several servers cannot mistake one for another."""
    return str(add_params_to_uri(address, [("iss", openid.issuer())]))
