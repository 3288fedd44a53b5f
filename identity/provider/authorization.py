"""The question to a user whether an application may act for him: read, answered yes, answered no.

A page asks it; it keeps nothing meanwhile, for the address of the question says all of it. There is no stored yes: who
is asked sees the question each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from oauth2_provider.models import Application
from oauthlib.common import add_params_to_uri
from oauthlib.oauth2.rfc6749 import errors

from identity.models import User

from . import clients, openid, scopes
from .errors import RequestNotTrustedError, RequestRefusedError, ScopeSyntaxError
from .scopes import Scope
from .server import server
from .validator import HERE

#: All that a client can sensibly ask, and a long `state`.
MAX_QUERY = 16 * 1024
MAX_FIELDS = 50
MAX_NONCE = 255
MAX_MESSAGE = 1000
#: Parameters that we have our own mind about: answers always come in the query, claims follow from scopes, and scopes
#: have dependencies in brackets.
_UNHEARD = {"claims", "response_mode", "request", "request_uri", "registration", "scope"}
_CHALLENGE = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")
_ADDRESS = "https://waybill.invalid/v2/oauth2/authorize"


@dataclass(frozen=True, slots=True, repr=False)
class Asked:
    """One question. `fields` are the parameters as they came, each with its last value."""

    application: Application
    scopes: tuple[Scope, ...]
    redirect_uri: str
    fields: Mapping[str, str]
    #: The question in the words of the server that answers it.
    _query: str = field(repr=False)
    _here: str = field(repr=False)

    @property
    def state(self) -> str | None:
        return self.fields.get("state")

    @property
    def redirect_host(self) -> str:
        """Where the user is sent with the answer, for him to read."""
        return urlsplit(self.redirect_uri).netloc

    @property
    def shows_code(self) -> bool:
        """The answer is a code that he copies."""
        return clients.is_code_page(self.redirect_uri, self._here)

    @property
    def offline(self) -> bool:
        """It may go on while he is away, until he withdraws it."""
        return self.fields.get("access_type") == "offline"

    @property
    def prompt(self) -> frozenset[str]:
        """none, login, consent, select_account. Who requires something of the session wants a fresh sign-in, too."""
        words = frozenset(self.fields.get("prompt", "").split())
        return words | {"login"} if any(name.startswith("session_required_") for name in self.fields) else words

    @property
    def message(self) -> str:
        """What the application says to the user."""
        return self.fields.get("session_message", "")[:MAX_MESSAGE]

    @property
    def login_hint(self) -> str:
        return self.fields.get("login_hint", "")[:MAX_MESSAGE]

    @property
    def max_age(self) -> int | None:
        """Seconds that his sign-in may be old at most."""
        text = self.fields.get("max_age", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def read(query: str, here: str) -> Asked:
    """The question that this query string is. here: the address by which the user has reached us.

    Raises RequestNotTrustedError: it is not certain whose the question is, nobody is sent anywhere.
    Raises RequestRefusedError: the application has asked what cannot be, and is told so.
    """
    given = _parsed(query)
    fields = dict(given)
    plain = urlencode(
        [(name, value) for name, value in given if name not in _UNHEARD and name != "scope"] + _scope(given)
    )
    try:
        names, credentials = server().validate_authorization_request(f"{_ADDRESS}?{plain}", headers={HERE: here})
        request = credentials["request"]
        _check(names, request)
    except errors.FatalClientError as error:
        raise RequestNotTrustedError(error.description or str(error.error)) from None
    except errors.OAuth2Error as error:
        raise RequestRefusedError(_with_issuer(error.in_uri(str(error.redirect_uri)))) from None
    known = tuple(scopes.KNOWN[name] for name in names)
    return Asked(request.client, known, request.redirect_uri, fields, plain, here)


def _parsed(query: str) -> list[tuple[str, str]]:
    try:
        if len(query) > MAX_QUERY or "\0" in query:
            raise ValueError(query)
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise RequestNotTrustedError("The question is malformed") from None


def _scope(given: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """What is malformed is passed on as something unknown: the client hears of it, once we know that it is one."""
    asked = [value for name, value in given if name == "scope"]
    try:
        return [("scope", " ".join(scopes.roots(text) or [scopes.DEFAULT])) for text in asked or [""]]
    except ScopeSyntaxError:
        return [("scope", "malformed")]


def _check(names: list[str], request: Any) -> None:
    """What oauthlib leaves to us. Raises OAuth2Error."""
    if request.code_challenge is not None and (
        request.code_challenge_method != "S256" or not _CHALLENGE.match(request.code_challenge)
    ):
        raise errors.InvalidRequestError("The code_challenge must be made by S256", request=request)
    nonce = request.nonce or ""
    if len(nonce) > MAX_NONCE or not nonce.isprintable():
        raise errors.InvalidRequestError(f"The nonce has at most {MAX_NONCE} printable characters", request=request)
    if scopes.OPENID in names and not openid.is_configured():
        raise errors.InvalidScopeError("This service has no key to sign identities with", request=request)


def objection(asked: Asked, user: User) -> str | None:
    """Why this user cannot be the one who answers, in words; None: he can."""
    wanted = _words(asked, "session_required_identities")
    if wanted and not wanted <= {str(user.pk), user.username.lower()}:
        return f"It asks for somebody else: {', '.join(sorted(wanted))}"
    domains = _words(asked, "session_required_single_domain")
    if domains and _domain(user) not in domains:
        return f"It asks for a user of {', '.join(sorted(domains))}"
    if asked.fields.get("session_required_mfa", "").lower() in ("true", "1"):
        return "It asks for a second factor, which this service does not know"
    if _words(asked, "session_required_policies"):
        return "It asks for policies that this service does not know"
    return None


def _words(asked: Asked, name: str) -> set[str]:
    return {word.strip().lower() for word in asked.fields.get(name, "").split(",") if word.strip()}


def _domain(user: User) -> str:
    """What stands behind the @ of his name; without one he is of this service."""
    return user.username.lower().partition("@")[2] or (urlsplit(openid.issuer()).hostname or "")


def grant(asked: Asked, user: User, authenticated_at: datetime) -> str:
    """Yes: the address to send the user to, with a code in it. authenticated_at: when he showed who he is.

    Raises RequestNotTrustedError, RequestRefusedError: what was asked has become wrong meanwhile.
    """
    said = {"user": user, "authenticated_at": authenticated_at}
    names = [scope.name for scope in asked.scopes]
    try:
        headers, _, _ = server().create_authorization_response(
            f"{_ADDRESS}?{asked._query}", headers={HERE: asked._here}, scopes=names, credentials=said
        )
    except errors.FatalClientError as error:
        raise RequestNotTrustedError(error.description or str(error.error)) from None
    return _with_issuer(headers["Location"])


#: What is said to a client besides the code of an error (RFC 6749 section 4.1.2.1, OpenID Connect Core 3.1.2.6).
_REFUSALS = {
    "access_denied": "The user has said no",
    "login_required": "The user is not signed in",
    "consent_required": "The user must be asked",
}


def refuse(asked: Asked, error: str = "access_denied") -> str:
    """No: the address to send the user to."""
    told = [("error", error), ("error_description", _REFUSALS[error])]
    if asked.state is not None:
        told.append(("state", asked.state))
    return _with_issuer(add_params_to_uri(asked.redirect_uri, told))


def _with_issuer(address: str) -> str:
    """Which server has answered (RFC 9207): a client of several is not to mistake one for another."""
    return str(add_params_to_uri(address, [("iss", openid.issuer())]))
