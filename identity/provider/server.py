"""The token endpoint, and token introspection: each takes a form, returns a status and a document.

oauthlib's server implements the protocol. At introspection (RFC 7662) an application may ask about its own tokens only.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from oauth2_provider.models import AccessToken, Application, RefreshToken
from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749.errors import InvalidScopeError, OAuth2Error, UnsupportedGrantTypeError

from identity import shown_names
from identity.models import SignIn, User

from . import identities, issue, openid, scopes
from .errors import ScopeSyntaxError

FORM = "application/x-www-form-urlencoded"
GRANTS = ("client_credentials", "authorization_code", "refresh_token")
#: The address passed to oauthlib's server, which reads only its query; a token request has none.
_ADDRESS = "https://waybill.invalid/v2/oauth2/token"


@dataclass(frozen=True, slots=True, repr=False)
class TokenResponse:
    status: int
    document: dict[str, Any]


@cache
def server() -> Any:
    """oauthlib's server, configured by the toolkit's settings."""
    return oauth2_settings.OAUTH2_SERVER_CLASS(
        oauth2_settings.OAUTH2_VALIDATOR_CLASS(), **oauth2_settings.server_kwargs
    )


def token(form: Sequence[tuple[str, str]], authorization: str) -> TokenResponse:
    """Exchange a secret, a code or a refresh token for tokens, or return the error (RFC 6749 sections 5.1 and 5.2)."""
    if dict(form).get("grant_type") not in GRANTS:
        return refused(UnsupportedGrantTypeError())
    try:
        body = urlencode([(name, _plain(value) if name == "scope" else value) for name, value in form])
        _, text, status = server().create_token_response(
            _ADDRESS,
            "POST",
            body,
            {"Authorization": authorization, "Content-Type": "application/x-www-form-urlencoded"},
        )
    except ScopeSyntaxError as error:
        return refused(InvalidScopeError(description=error.reason))
    except OAuth2Error as error:
        return refused(error)
    return TokenResponse(int(status), json.loads(text))


def refused(error: OAuth2Error) -> TokenResponse:
    return TokenResponse(int(error.status_code), dict(error.twotuples))


def _plain(scope: str) -> str:
    return " ".join(scopes.roots(scope) or [scopes.DEFAULT])


NOT_ACTIVE: dict[str, Any] = {"active": False}


def describe(token: str, application: Application, include: Collection[str] = ()) -> dict[str, Any]:
    """include: `session_info` (when the user authenticated), `identity_set`."""
    if (access := issue.find(token)) is not None and access.application_id == application.pk:
        return _described(access, access.scope, _sign_in_of(access), include)
    renewal = issue.find_renewal(token)
    if renewal is None or renewal.application_id != application.pk or not issue.is_good(renewal):
        return NOT_ACTIVE
    sign_in = SignIn.objects.filter(pk=renewal.token_family).first()
    return _described(renewal, renewal.access_token.scope, sign_in, include)


def is_active(token: str, application: Application) -> bool:
    return bool(describe(token, application)["active"])


def _described(
    row: AccessToken | RefreshToken, scope: str, sign_in: SignIn | None, include: Collection[str]
) -> dict[str, Any]:
    facts = _facts(row, row.user, scope)
    if sign_in is not None and scopes.EMAIL not in sign_in.scope.split():
        # The user has not consented to show the mail address to this application.
        facts["email"] = None
    return {**facts, **_more(row.user, sign_in, include)}


def _facts(row: AccessToken | RefreshToken, user: User, scope: str) -> dict[str, Any]:
    begun = _seconds(row.created)
    expires = row.expires if isinstance(row, AccessToken) else issue.expiry(row)
    return {
        "active": True,
        "scope": scope,
        "client_id": row.application.client_id,
        "sub": str(user.pk),
        "username": shown_names.name_of(user),
        "name": openid.name_of(user),
        "email": user.email or None,
        "exp": _seconds(expires),
        "iat": begun,
        "nbf": begun,
        "aud": [scopes.resource_server(scope), row.application.client_id],
        "iss": openid.issuer(),
        "token_type": "Bearer",
    }


def _sign_in_of(access: AccessToken) -> SignIn | None:
    return SignIn.objects.filter(tokens__access_token=access).first()


def _more(user: User, sign_in: SignIn | None, include: Collection[str]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if "session_info" in include:
        more["session_info"] = _session(user, sign_in)
    if "identity_set" in include:
        more["identity_set"] = [str(one.id) for one in identities.of(user)]
    return more


def _session(user: User, sign_in: SignIn | None) -> dict[str, Any]:
    """An application that authenticated by its secret alone has no session, because no person authenticated."""
    if sign_in is None:
        return {"session_id": None, "authentications": {}}
    identity = identities.of_sign_in(user, sign_in.identity)
    facts = {
        "auth_time": _seconds(sign_in.authenticated_at),
        "idp": identity.provider_id,
        "acr": None,
        "amr": _METHODS.get(sign_in.way),
    }
    return {"session_id": str(sign_in.pk), "authentications": {str(identity.id): facts}}


#: Ways of signing in as methods of RFC 8176.
_METHODS = {
    "password": ["pwd"],
    "code": ["pwd", "otp", "mfa"],
    "second": ["pwd", "swk", "mfa"],
    "passkey": ["swk", "mfa"],
    "certificate": ["pop"],
}


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
