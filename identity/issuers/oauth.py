"""Certificates from the OAuth server of an endpoint: authorization code with PKCE, then a signing request.

The protocol is that of OA4MP (MyProxy's OAuth server): RFC 6749 with RFC 7636 (S256), and a resource `getcert`, which
signs a PKCS #10 request (`certreq`, base64 of its DER) of a client that sends the token. This service generates the
private key. `discover` finds the resources, by the metadata of the server or at the
paths that OA4MP has by default; they are all on the registered host and port.

    begun = begin(server, addresses, client, redirect_uri=..., trust=...)
    # The user's browser goes to begun.url; the vault keeps begun.secret and begun.state (vault.keep_pending).
    credential = finish(secret, addresses, client, code=..., state=..., issuer=..., trust=..., lifetime=..., now=...)

All functions block, for a bounded time. Errors: see `oauth_errors`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from cryptography.hazmat.primitives.serialization import Encoding
from django.views.decorators.debug import sensitive_variables
from oauthlib.oauth2 import WebApplicationClient

from identity.error_categories import Refusal
from identity.gsi.errors import CredentialError, UntrustedError
from identity.gsi.proxies import make_request, new_key
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential, read_certificates
from identity.http.https_client import (
    REQUEST_SECONDS,
    ConnectionFailedError,
    HttpClientError,
    HttpResponse,
    InsecureConnectionError,
    InvalidResponseError,
    NoTlsError,
    ResponseTimeoutError,
    Site,
    client_context,
)
from identity.http.web_address import Url, WebAddressError, parse_url

from .oauth_clients import OAuthClient
from .oauth_clients import parse_server as parse_server
from .oauth_errors import (
    BAD_ANSWER,
    CERTIFICATE_NOT_USABLE,
    ISSUER_MISMATCH,
    SERVER_NOT_TRUSTED,
    SERVER_TOO_SLOW,
    SERVER_UNREACHABLE,
    STATE_MISMATCH,
    OAuthError,
    OAuthRefusedError,
    ServerAddressError,
    ServerAnswerError,
)


def site_of(url: Url, addresses: Sequence[str], trust: TrustFolder, timeout: float) -> Site:
    """Trusts the authorities of the system and those that are trusted for endpoints."""
    return Site(url, addresses, client_context(trust.path), timeout, kind="OAuth server")


@sensitive_variables("headers", "body")
def ask(
    site: Site, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> HttpResponse:
    """`site.ask`, with its errors as those of the OAuth server. Raises OAuthError."""
    try:
        return site.ask(method, target, headers, body)
    except NoTlsError:
        raise OAuthError(SERVER_NOT_TRUSTED, reason=_NO_TLS) from None
    except InvalidResponseError as error:
        raise ServerAnswerError(error.reason, error.status) from None
    except HttpClientError as error:
        if refusal := _ERRORS.get(type(error)):
            raise OAuthError(refusal, reason=error.reason) from None
        raise ServerAddressError(reason=error.reason) from None


_NO_TLS = "An OAuth server without TLS (http://) is not asked: secrets would be read."
_ERRORS: dict[type[HttpClientError], Refusal] = {
    ConnectionFailedError: SERVER_UNREACHABLE,
    ResponseTimeoutError: SERVER_TOO_SLOW,
    InsecureConnectionError: SERVER_NOT_TRUSTED,
}


def refusal_of(answer: HttpResponse) -> OAuthError:
    """The error for an answer whose status is not 200: of its error document (RFC 6749, 5.2), or of the status."""
    try:
        return OAuthRefusedError(json_object(answer).get("error"))
    except ServerAnswerError:
        return ServerAnswerError(f"The OAuth server answers with status {answer.status}.")


@sensitive_variables("document")
def json_object(answer: HttpResponse) -> dict[str, Any]:
    """The answer as a JSON object. Raises ServerAnswerError."""
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ServerAnswerError("The OAuth server does not answer in JSON.") from None
    if not isinstance(document, dict):
        raise ServerAnswerError("The OAuth server does not answer with an object.")
    return document


#: The scope of OA4MP for certificates; it requires `openid` besides.
GETCERT_SCOPE = "edu.uiuc.ncsa.myproxy.getcert"
SCOPES = ("openid", GETCERT_SCOPE)


@dataclass(frozen=True, slots=True)
class OAuthParts:
    """The paths of the resources of a server, and its properties. issuer: "" where the server has no metadata."""

    authorize: str
    token: str
    getcert: str
    issuer: str = ""
    names_issuer: bool = False
    scopes: tuple[str, ...] = SCOPES
    #: Whether clients authenticate by HTTP Basic (RFC 6749, 2.3.1).
    basic: bool = False


def discover(site: Site) -> OAuthParts:
    """Try RFC 8414, then OpenID Connect Discovery, then the default paths of OA4MP. Raises OAuthError."""
    path = site.url.path
    for target in (f"/.well-known/oauth-authorization-server{path}", f"{path}/.well-known/openid-configuration"):
        answer = ask(site, "GET", target)
        if answer.status == 200:
            return _read_metadata(site.url, json_object(answer))
    return OAuthParts(f"{path}/authorize", f"{path}/token", f"{path}/getcert")


def _read_metadata(url: Url, document: Mapping[str, Any]) -> OAuthParts:
    issuer = document.get("issuer")
    if not isinstance(issuer, str) or issuer.rstrip("/") != str(url):
        raise ServerAnswerError("The OAuth server describes another server than the registered one (RFC 8414, 3.3).")
    methods = document.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ServerAnswerError("The OAuth server does not know PKCE with S256 (RFC 7636).")
    authorize = _part(url, document, "authorization_endpoint", f"{url.path}/authorize")
    token = _part(url, document, "token_endpoint", f"{url.path}/token")
    getcert = _part(url, document, "getcert_endpoint", token.rstrip("/").rpartition("/")[0] + "/getcert")
    ways = document.get("token_endpoint_auth_methods_supported")
    return OAuthParts(
        authorize,
        token,
        getcert,
        issuer,
        document.get("authorization_response_iss_parameter_supported") is True,
        _scopes(document.get("scopes_supported")),
        isinstance(ways, list) and "client_secret_basic" in ways and "client_secret_post" not in ways,
    )


def _part(url: Url, document: Mapping[str, Any], name: str, default: str) -> str:
    """The path of a resource, which must be on the registered host and port."""
    value = document.get(name)
    if value is None:
        return default
    try:
        found = parse_url(value, keep_slash=True) if isinstance(value, str) else None
    except WebAddressError:
        found = None
    if found is None or found.origin != url.origin:
        raise ServerAnswerError(f"The OAuth server names another server for its {name.replace('_', ' ')}.")
    return found.path or "/"


def _scopes(supported: object) -> tuple[str, ...]:
    """The scopes to ask for, without `openid` where the server does not list it."""
    if isinstance(supported, list) and "openid" not in supported:
        return (GETCERT_SCOPE,)
    return SCOPES


#: The time in which an activation can be finished. The codes of servers are valid for 1 to 15 minutes.
PENDING_LIFETIME = timedelta(minutes=20)
MAX_ANSWER_TEXT = 8192
MAX_TOKEN = 8192
MIN_LIFETIME = timedelta(minutes=5)
#: Seconds for each of at most two requests for metadata: the user waits for a page meanwhile.
DISCOVERY_SECONDS = 5.0
#: The end of the address of the callback page, which identifies the server that redirects to it.
_PLACE = re.compile(r"/oauth/callback/([0-9a-f]{16})")
#: Characters of the code verifier (RFC 7636, 4.1).
VERIFIER_LENGTH = 64
_USELESS = "The certificate of the OAuth server is of no use: {}"


@dataclass(frozen=True, slots=True)
class OAuthAttempt:
    """url: for the user's browser. secret: to be kept encrypted for `finish`, by `state`, for at most `lifetime`."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    secret: bytes = field(repr=False)
    lifetime: timedelta = PENDING_LIFETIME


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """The text that the callback page showed. place: the end of the page's address; "" where it has none."""

    code: str = field(repr=False)
    state: str = field(default="", repr=False)
    issuer: str = ""
    place: str = ""


def place_of(server: Url) -> str:
    """The end of the address of the callback page for a server that does not name itself in its answers.

    Without it, a hostile server could redirect a user to another server. The code of that server would then arrive as a
    code of the hostile one, and be sent to it (mix-up attack, RFC 9700, 4.4).
    """
    return hashlib.sha256(str(server).encode()).hexdigest()[:16]


def read_answer(text: str) -> UserAnswer:
    """Parse the line of the callback page, or a bare code. Raises BAD_ANSWER; OAuthRefusedError for an error."""
    text = text.strip()
    if not text or len(text) > MAX_ANSWER_TEXT or not text.isascii() or not text.isprintable():
        raise OAuthError(BAD_ANSWER)
    if "code=" not in text and "error=" not in text:
        return UserAnswer(text)
    address, _, query = text.rpartition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    if len(values) != len(pairs):
        raise OAuthError(BAD_ANSWER)  # A name that occurs twice is ambiguous.
    if "error" in values:
        raise OAuthRefusedError(values["error"])
    if not values.get("code"):
        raise OAuthError(BAD_ANSWER)
    pasted = _PLACE.search(address)
    place = pasted[1] if pasted else values.get("place", "")
    return UserAnswer(values["code"], values.get("state", ""), values.get("iss", ""), place)


@sensitive_variables("verifier", "state", "kept")
def begin(
    server: Url,
    addresses: Sequence[str],
    client: OAuthClient,
    *,
    redirect_uri: str,
    trust: TrustFolder,
    timeout: float = DISCOVERY_SECONDS,
) -> OAuthAttempt:
    """Find the server's resources, and make the address for the user's browser. Raises OAuthError.

    redirect_uri: of the callback page; a server that does not name itself in its answers gets an address below it.
    """
    parts = discover(site_of(server, addresses, trust, timeout))
    place = "" if parts.names_issuer else place_of(server)
    redirect_uri = f"{redirect_uri}/{place}" if place else redirect_uri
    grant = WebApplicationClient(client.identifier)
    verifier, state = grant.create_code_verifier(VERIFIER_LENGTH), secrets.token_urlsafe(32)
    query = {
        "response_type": "code",
        "client_id": client.identifier,
        "redirect_uri": redirect_uri,
        "scope": " ".join(parts.scopes),
        "state": state,
        "code_challenge": grant.create_code_challenge(verifier, "S256"),
        "code_challenge_method": "S256",
    }
    kept = {
        "server": str(server),
        "token": parts.token,
        "getcert": parts.getcert,
        "issuer": parts.issuer,
        "names_issuer": parts.names_issuer,
        "basic": parts.basic,
        "redirect_uri": redirect_uri,
        "place": place,
        "verifier": verifier,
        "state": state,
    }
    return OAuthAttempt(f"{server.origin}{parts.authorize}?{urlencode(query)}", state, json.dumps(kept).encode())


def finish(
    secret: bytes,
    addresses: Sequence[str],
    client: OAuthClient,
    *,
    code: str,
    state: str,
    issuer: str = "",
    place: str = "",
    trust: TrustFolder,
    lifetime: timedelta,
    now: datetime,
    timeout: float = REQUEST_SECONDS,
) -> X509Credential:
    """Exchange the code for a token, and the token for a certificate of a new key. Raises OAuthError.

    secret: of `OAuthAttempt`; it can be used once, also where this fails. lifetime: the requested one; servers may
    give less.
    """
    try:
        kept: dict[str, Any] = json.loads(secret)
        _check_answer(kept, code, state, issuer, place)
        site = site_of(parse_server(kept["server"]), addresses, trust, timeout)
        credential = _certificate(site, client, _token(site, client, kept, code), kept["getcert"], lifetime)
        try:
            trust.admit(credential, now=now)
        except UntrustedError as error:
            raise OAuthError(CERTIFICATE_NOT_USABLE, reason=_USELESS.format(error.reason)) from None
        return credential
    except OAuthError as error:
        # Raised without its traceback, whose frames hold the code and the token.
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    del secret, code, state, kept
    raise failure


@sensitive_variables()
def _certificate(site: Site, client: OAuthClient, token: str, target: str, lifetime: timedelta) -> X509Credential:
    """A certificate for a new key, from the resource `getcert`. Raises OAuthError."""
    key = new_key()
    body = {
        **_client_fields(client),
        "certreq": base64.b64encode(make_request(key).public_bytes(Encoding.DER)).decode(),
        "certlifetime": str(int(max(lifetime, MIN_LIFETIME).total_seconds())),
    }
    headers = {"Authorization": f"Bearer {token}"}
    answer = ask(site, "POST", target, headers, urlencode(body).encode())
    if answer.status != 200:
        raise refusal_of(answer)
    try:
        return X509Credential.assemble(key, read_certificates(answer.body))
    except CredentialError as error:
        raise OAuthError(CERTIFICATE_NOT_USABLE, reason=_USELESS.format(error.reason)) from None


@sensitive_variables("kept", "code", "state")
def _check_answer(kept: Mapping[str, Any], code: str, state: str, issuer: str, place: str) -> None:
    if not hmac.compare_digest(state.encode("utf-8", "replace"), kept["state"].encode()):
        raise OAuthError(STATE_MISMATCH)
    if issuer.rstrip("/") != (kept["issuer"] or kept["server"]).rstrip("/") and (issuer or kept["names_issuer"]):
        raise OAuthError(ISSUER_MISMATCH)
    if place and place != kept["place"]:
        raise OAuthError(ISSUER_MISMATCH)
    if not 0 < len(code) <= MAX_ANSWER_TEXT or not code.isascii() or not code.isprintable():
        raise OAuthError(BAD_ANSWER)


@sensitive_variables()
def _token(site: Site, client: OAuthClient, kept: Mapping[str, Any], code: str) -> str:
    """Exchange the code for an access token (RFC 6749, 4.1.3), which is used once, at once, and stored nowhere."""
    grant = WebApplicationClient(client.identifier)
    headers: dict[str, str] = {}
    more: dict[str, str] = {}
    if client.secret and kept["basic"]:
        pair = f"{client.identifier}:{client.secret}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    elif client.secret:
        more["client_secret"] = client.secret
    more |= {"code": code, "redirect_uri": kept["redirect_uri"], "code_verifier": kept["verifier"]}
    body = grant.prepare_request_body(**more)  # type: ignore[arg-type]
    answer = ask(site, "POST", kept["token"], headers, body.encode())
    if answer.status != 200:
        raise refusal_of(answer)
    document = json_object(answer)
    if "error" in document:
        raise OAuthRefusedError(document["error"])
    token, kind = document.get("access_token"), document.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise ServerAnswerError("The OAuth server gives tokens of a kind that is not known here.")
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN or not _is_token(token):
        raise ServerAnswerError("The OAuth server gives no token that could be one.")
    return token


def _is_token(text: str) -> bool:
    """Whether this can be a token: visible ASCII without blanks, which is more than RFC 6750, 2.1, allows."""
    return all("!" <= letter <= "~" for letter in text)


@sensitive_variables("fields")
def _client_fields(client: OAuthClient) -> dict[str, str]:
    fields = {"client_id": client.identifier}
    return fields | {"client_secret": client.secret} if client.secret else fields
