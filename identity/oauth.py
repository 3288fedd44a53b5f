"""Certificates from the OAuth server of an endpoint: authorization code with PKCE, then a signing request.

The protocol is the one of OA4MP (MyProxy's OAuth server): RFC 6749 with RFC 7636 (S256), and a resource `getcert`,
which signs a PKCS #10 request (`certreq`, base64 of its DER) for whoever shows the token. The private key is born here.
Where its parts are the server tells by RFC 8414 or OpenID Connect Discovery; else they are /authorize, /token and
/getcert below the registered address. All parts are on the registered host and port.

    begun = begin(server, addresses, client, redirect_uri=..., trust=...)
        -> the user's browser goes to begun.url; begun.secret and begun.state are kept (vault.keep_pending)
    credential = finish(secret, addresses, client, code=..., state=..., issuer=..., trust=..., lifetime=..., now=...)

Everything here blocks, for a bounded time. Errors: see `oauth_errors`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from cryptography.hazmat.primitives.serialization import Encoding
from django.views.decorators.debug import sensitive_variables
from oauthlib.oauth2 import WebApplicationClient

from endpoints.gridftp.proxies import make_request, new_key
from endpoints.gridftp.trust import TrustFolder, UntrustedError
from endpoints.gridftp.x509 import Credential, CredentialError, read_certificates

from .https import REQUEST_SECONDS, Answer, Site
from .oauth_clients import Client
from .oauth_errors import (
    BadAnswerError,
    CertificateNotUsableError,
    IssuerMismatchError,
    OAuthError,
    RefusedError,
    ServerAddressError,
    ServerAnswerError,
    StateMismatchError,
)
from .web_address import Url, parse_url

#: What OA4MP wants to be asked for; `openid` it wants in addition to anything.
GETCERT_SCOPE = "edu.uiuc.ncsa.myproxy.getcert"
SCOPES = ("openid", GETCERT_SCOPE)
#: For which a begun activation can be finished: servers' codes live for 1 to 15 minutes.
PENDING_LIFETIME = timedelta(minutes=20)
MAX_ANSWER_TEXT = 8192
MAX_TOKEN = 8192
MIN_LIFETIME = timedelta(minutes=5)
#: Seconds for each of at most two questions before the user goes there: a page waits for them.
DISCOVERY_SECONDS = 5.0
#: What the address of the callback page ends in: which server sends its answers there.
_PLACE = re.compile(r"/oauth/callback/([0-9a-f]{16})")
#: Characters of the code verifier (RFC 7636, 4.1).
VERIFIER_LENGTH = 64
_USELESS = "The certificate of the OAuth server is of no use: {}"


@dataclass(frozen=True, slots=True)
class OAuthServer:
    """The registered address of a server: https://host[:port][/path]. `host` and `port` are for the address gate."""

    url: Url

    @property
    def host(self) -> str:
        return self.url.host

    @property
    def port(self) -> int:
        return self.url.port

    def __str__(self) -> str:
        return str(self.url)


@dataclass(frozen=True, slots=True)
class Begun:
    """url: where the user's browser goes. secret: to be kept sealed until `finish`, by `state`, for `lifetime`."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    secret: bytes = field(repr=False)
    lifetime: timedelta = PENDING_LIFETIME


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """What the callback page showed. place: at which of its addresses, "" for the common one."""

    code: str = field(repr=False)
    state: str = field(default="", repr=False)
    issuer: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where the parts of a server are. issuer: "" where the server did not tell."""

    authorize: str
    token: str
    getcert: str
    issuer: str = ""
    names_issuer: bool = False
    scopes: tuple[str, ...] = SCOPES
    basic: bool = False


def parse_server(text: str) -> OAuthServer:
    """The address of a server as owners register it. -> ServerAddressError"""
    return OAuthServer(parse_url(text))


def place_of(server: OAuthServer) -> str:
    """Under which name this server sends its answers to the callback page, unless it names itself in each.

    Else a hostile server could send a user on to another one, in our name: that one's code would then come back as its
    own, and be brought to it (mix-up, RFC 9700, 4.4).
    """
    return hashlib.sha256(str(server).encode()).hexdigest()[:16]


def read_answer(text: str) -> UserAnswer:
    """The line that the callback page shows, or a bare code. -> BadAnswerError; RefusedError when it is an error"""
    text = text.strip()
    if not text or len(text) > MAX_ANSWER_TEXT or not text.isascii() or not text.isprintable():
        raise BadAnswerError
    if "code=" not in text and "error=" not in text:
        return UserAnswer(text)
    address, _, query = text.rpartition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadAnswerError  # twice the same: which one is meant?
    if "error" in values:
        raise RefusedError(values["error"])
    if not values.get("code"):
        raise BadAnswerError
    pasted = _PLACE.search(address)
    place = pasted[1] if pasted else values.get("place", "")
    return UserAnswer(values["code"], values.get("state", ""), values.get("iss", ""), place)


@sensitive_variables("verifier", "state", "kept")
def begin(
    server: OAuthServer,
    addresses: Sequence[str],
    client: Client,
    *,
    redirect_uri: str,
    trust: TrustFolder,
    timeout: float = DISCOVERY_SECONDS,
) -> Begun:
    """Ask the server where its parts are, and make the address for the user's browser. -> OAuthError

    redirect_uri: of the callback page; servers that do not name themselves in their answers get one below it.
    """
    parts = _discover(_site(server.url, addresses, trust, timeout))
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
    return Begun(f"{server.url.origin}{parts.authorize}?{urlencode(query)}", state, json.dumps(kept).encode())


def finish(
    secret: bytes,
    addresses: Sequence[str],
    client: Client,
    *,
    code: str,
    state: str,
    issuer: str = "",
    place: str = "",
    trust: TrustFolder,
    lifetime: timedelta,
    now: datetime,
    timeout: float = REQUEST_SECONDS,
) -> Credential:
    """Exchange the code for a token, and the token for a certificate of a new key. -> OAuthError

    secret: of `Begun`; it serves once, whatever comes of it. lifetime: that is asked for; servers may give less.
    """
    try:
        kept: dict[str, Any] = json.loads(secret)
        _check_answer(kept, code, state, issuer, place)
        site = _site(parse_url(kept["server"]), addresses, trust, timeout)
        credential = _certificate(site, client, _token(site, client, kept, code), kept["getcert"], lifetime)
        try:
            trust.admit(credential, now=now)
        except UntrustedError as error:
            raise CertificateNotUsableError(_USELESS.format(error.reason)) from None
        return credential
    except OAuthError as error:
        # Raised anew, without the way that it came: in the frames on it lie the code and the token.
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    del secret, code, state, kept
    raise failure


@sensitive_variables()
def _certificate(site: Site, client: Client, token: str, target: str, lifetime: timedelta) -> Credential:
    """From the resource `getcert`, for a new key."""
    key = new_key()
    body = {
        **_client_fields(client),
        "certreq": base64.b64encode(make_request(key).public_bytes(Encoding.DER)).decode(),
        "certlifetime": str(int(max(lifetime, MIN_LIFETIME).total_seconds())),
    }
    headers = {"Authorization": f"Bearer {token}"}
    answer = site.ask("POST", target, headers, urlencode(body).encode())
    if answer.status != 200:
        raise _refusal(answer)
    try:
        return Credential.assemble(key, read_certificates(answer.body))
    except CredentialError as error:
        raise CertificateNotUsableError(_USELESS.format(error.reason)) from None


@sensitive_variables("kept", "code", "state")
def _check_answer(kept: Mapping[str, Any], code: str, state: str, issuer: str, place: str) -> None:
    if not hmac.compare_digest(state.encode("utf-8", "replace"), kept["state"].encode()):
        raise StateMismatchError
    if issuer.rstrip("/") != (kept["issuer"] or kept["server"]).rstrip("/") and (issuer or kept["names_issuer"]):
        raise IssuerMismatchError
    if place and place != kept["place"]:
        raise IssuerMismatchError
    if not 0 < len(code) <= MAX_ANSWER_TEXT or not code.isascii() or not code.isprintable():
        raise BadAnswerError


@sensitive_variables()
def _token(site: Site, client: Client, kept: Mapping[str, Any], code: str) -> str:
    """RFC 6749, 4.1.3. The token is used once, at once, and kept nowhere."""
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
    answer = site.ask("POST", kept["token"], headers, body.encode())
    if answer.status != 200:
        raise _refusal(answer)
    document = _document(answer)
    if "error" in document:
        raise RefusedError(document["error"])
    token, kind = document.get("access_token"), document.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise ServerAnswerError("The OAuth server gives tokens of a kind that is not known here.")
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN or not _is_token(token):
        raise ServerAnswerError("The OAuth server gives no token that could be one.")
    return token


def _is_token(text: str) -> bool:
    """RFC 6750, 2.1, and what servers take for it besides: anything visible without blanks."""
    return all("!" <= letter <= "~" for letter in text)


@sensitive_variables("fields")
def _client_fields(client: Client) -> dict[str, str]:
    fields = {"client_id": client.identifier}
    return fields | {"client_secret": client.secret} if client.secret else fields


def _refusal(answer: Answer) -> OAuthError:
    """An error document (RFC 6749, 5.2), or any other answer that is not 200."""
    try:
        return RefusedError(_document(answer).get("error"))
    except ServerAnswerError:
        return ServerAnswerError(f"The OAuth server answers with status {answer.status}.")


@sensitive_variables("document")
def _document(answer: Answer) -> dict[str, Any]:
    """A JSON object."""
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ServerAnswerError("The OAuth server does not answer in JSON.") from None
    if not isinstance(document, dict):
        raise ServerAnswerError("The OAuth server does not answer with an object.")
    return document


# ---- where the parts are


def _discover(site: Site) -> _Parts:
    """RFC 8414, then OpenID Connect Discovery, then the places that OA4MP has by default."""
    path = site.url.path
    for target in (f"/.well-known/oauth-authorization-server{path}", f"{path}/.well-known/openid-configuration"):
        answer = site.ask("GET", target)
        if answer.status == 200:
            return _read_metadata(site.url, _document(answer))
    return _Parts(f"{path}/authorize", f"{path}/token", f"{path}/getcert")


def _read_metadata(url: Url, document: Mapping[str, Any]) -> _Parts:
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
    return _Parts(
        authorize,
        token,
        getcert,
        issuer,
        document.get("authorization_response_iss_parameter_supported") is True,
        _scopes(document.get("scopes_supported")),
        isinstance(ways, list) and "client_secret_basic" in ways and "client_secret_post" not in ways,
    )


def _part(url: Url, document: Mapping[str, Any], name: str, default: str) -> str:
    """The path of a part, which is on the registered host and port."""
    value = document.get(name)
    if value is None:
        return default
    try:
        found = parse_url(value, keep_slash=True) if isinstance(value, str) else None
    except ServerAddressError:
        found = None
    if found is None or found.origin != url.origin:
        raise ServerAnswerError(f"The OAuth server sends us elsewhere for its {name.replace('_', ' ')}.")
    return found.path or "/"


def _scopes(supported: object) -> tuple[str, ...]:
    """`openid` is left out where the server does not list it."""
    if isinstance(supported, list) and "openid" not in supported:
        return (GETCERT_SCOPE,)
    return SCOPES


def _site(url: Url, addresses: Sequence[str], trust: TrustFolder, timeout: float) -> Site:
    """Its certificate may be of an authority of the system, or of one that is trusted for endpoints."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust.path.is_dir():
        context.load_verify_locations(capath=str(trust.path))
    return Site(url, addresses, context, timeout)
