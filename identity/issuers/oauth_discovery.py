"""Finds the resources of an OAuth server: by its metadata, or at the paths that OA4MP has by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from identity.http.https_client import Site
from identity.http.web_address import Url, WebAddressError, parse_url

from .oauth_errors import ServerAnswerError
from .oauth_requests import ask, json_object

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
