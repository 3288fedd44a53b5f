"""OpenID Connect discovery: the metadata of this server, and the public keys of its identity tokens."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from identity.provider import openid, scopes
from transferapi.rest.http.errors import document

#: Seconds that caches may keep the answer.
MAX_AGE = 3600


@require_safe
def configuration(request: HttpRequest) -> HttpResponse:
    """GET /.well-known/openid-configuration (OpenID Connect Discovery) and /.well-known/oauth-authorization-server."""
    here = openid.issuer()
    found: dict[str, Any] = {
        "issuer": here,
        "authorization_endpoint": f"{here}/v2/oauth2/authorize",
        "token_endpoint": f"{here}/v2/oauth2/token",
        "revocation_endpoint": f"{here}/v2/oauth2/token/revoke",
        "introspection_endpoint": f"{here}/v2/oauth2/token/introspect",
        "userinfo_endpoint": f"{here}/v2/oauth2/userinfo",
        "jwks_uri": f"{here}/jwk.json",
        "scopes_supported": list(scopes.KNOWN),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": list(openid.ALGORITHMS),
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        "code_challenge_methods_supported": ["S256"],
        "claims_supported": ["sub", "name", "preferred_username", "email", "auth_time"],
        "authorization_response_iss_parameter_supported": True,
    }
    return _answer(request, found)


@require_safe
def keys(request: HttpRequest) -> HttpResponse:
    """GET /jwk.json"""
    return _answer(request, openid.public_keys() if openid.is_configured() else {})


def _answer(request: HttpRequest, found: dict[str, Any]) -> HttpResponse:
    if not openid.is_configured():
        message = "OpenID is not set up here: the operator gives this service a key (WAYBILL_OIDC_KEY)"
        return JsonResponse(document(request, "ServiceError.OpenIDNotConfigured", message), status=501)
    return JsonResponse(found, headers={"Cache-Control": f"public, max-age={MAX_AGE}"})
