"""The token endpoint: takes a form, returns a status and a document. oauthlib's server implements the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from oauth2_provider.settings import oauth2_settings
from oauthlib.oauth2.rfc6749.errors import InvalidScopeError, OAuth2Error, UnsupportedGrantTypeError

from . import scopes
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
