"""The routes that are plain functions, for the OpenAPI description: OAuth2, OpenID Connect and SCIM, whose forms and
documents are those of their standards."""

from __future__ import annotations

from typing import Any

from identity.provider import scopes

from .types import TEXT, Schema, properties

FORM, SCIM = "application/x-www-form-urlencoded", "application/scim+json"
_ANY: Schema = {"type": "object", "additionalProperties": True}
_ERROR = {"description": "an error of OAuth2 (RFC 6749 section 5.2)", "content": {"application/json": {"schema": _ANY}}}


def _answers(description: str) -> dict[str, Any]:
    good = {"description": description, "content": {"application/json": {"schema": _ANY}}}
    return {"200": good, "4XX": _ERROR, "5XX": _ERROR}


def _operation(name: str, tag: str, summary: str, security: list[Any], **more: Any) -> dict[str, Any]:
    about = {"operationId": name, "tags": [tag], "summary": summary, "description": "", "security": security}
    return {**about, **more}


def _form(name: str, summary: str, required: str, optional: str, answer: str) -> dict[str, Any]:
    fields = properties(f"{required} {optional}", TEXT)
    schema = {"type": "object", "properties": fields, "required": required.split()}
    body = {"required": True, "content": {FORM: {"schema": schema}}}
    clients: list[Any] = [{"client": []}, {}]
    named = f"post_oauth2_{name}"
    return {"post": _operation(named, "oauth2", summary, clients, requestBody=body, responses=_answers(answer))}


def _get(name: str, summary: str, answer: str) -> dict[str, Any]:
    return {"get": _operation(name, "oauth2", summary, [{}], responses=_answers(answer))}


def _scim(path: str, methods: str, summary: str) -> dict[str, Any]:
    """The documents are those of RFC 7643, which describes them itself at /scim/v2/Schemas."""
    shown = {"description": "RFC 7644", "content": {SCIM: {"schema": _ANY}}}
    name = path.removeprefix("/scim/v2/").replace("/{ref}", "_ref").strip("{}").lower()
    more: dict[str, Any] = {}
    if "{ref}" in path:
        more["parameters"] = [{"name": "ref", "in": "path", "required": True, "schema": TEXT, "description": "the id"}]
    more["responses"] = {"2XX": shown, "4XX": shown, "5XX": shown}
    return {
        method: _operation(f"{method}_scim_{name}", "scim", summary, [{"scim": []}], **more)
        for method in methods.split()
    }


_SCIM = {
    "/scim/v2/ServiceProviderConfig": ("get", "Which parts of SCIM 2.0 are supported"),
    "/scim/v2/ResourceTypes": ("get", "The kinds of resources of SCIM"),
    "/scim/v2/ResourceTypes/{ref}": ("get", "One kind of resources of SCIM"),
    "/scim/v2/Schemas": ("get", "The attributes of SCIM resources"),
    "/scim/v2/Schemas/{ref}": ("get", "The attributes of one kind of SCIM resources"),
    "/scim/v2/Users": ("get post", "The users that a directory manages"),
    "/scim/v2/Users/{ref}": ("get put patch delete", "One user that a directory manages"),
    "/scim/v2/Groups": ("get post", "The groups that a directory manages"),
    "/scim/v2/Groups/{ref}": ("get put patch delete", "One group that a directory manages"),
    "/scim/v2/{ref}": ("get", "Another part of SCIM: not supported"),
}

PATHS: dict[str, Any] = {
    **{path: _scim(path, methods, summary) for path, (methods, summary) in _SCIM.items()},
    "/v2/oauth2/token": _form(
        "token",
        "Get tokens (RFC 6749)",
        "grant_type",
        "scope code redirect_uri code_verifier refresh_token client_id client_secret",
        "a token, and in other_tokens those of other resource servers",
    ),
    "/v2/oauth2/token/revoke": _form(
        "revoke", "Take a token back (RFC 7009)", "token", "client_id client_secret", "the token is not valid"
    ),
    "/v2/oauth2/token/introspect": _form(
        "introspect", "What a token is (RFC 7662)", "token", "include client_id client_secret", "active, or not"
    ),
    "/v2/oauth2/token/validate": _form(
        "validate", "Whether a token of one's own is good", "token", "client_id client_secret", "active, or not"
    ),
    "/.well-known/openid-configuration": _get(
        "get_openid_configuration", "Where everything of the OpenID provider is", "OpenID Connect Discovery 1.0"
    ),
    "/.well-known/oauth-authorization-server": _get(
        "get_oauth_authorization_server", "Where everything of the OAuth2 server is", "RFC 8414"
    ),
    "/jwk.json": _get("get_jwk", "The keys that id_tokens are signed with", "a JWK set (RFC 7517)"),
}

_SCOPES = {name: one.words for name, one in scopes.KNOWN.items()}
#: The ways to get a token, and to authenticate as a client.
SECURITY: dict[str, Any] = {
    "oauth2": {
        "type": "oauth2",
        "description": "tokens of this server are bearer tokens; in place of one, a user's TLS client certificate does",
        "flows": {
            "clientCredentials": {"tokenUrl": "/v2/oauth2/token", "scopes": _SCOPES},
            "authorizationCode": {
                "authorizationUrl": "/v2/oauth2/authorize",
                "tokenUrl": "/v2/oauth2/token",
                "refreshUrl": "/v2/oauth2/token",
                "scopes": _SCOPES,
            },
        },
    },
    "scim": {"type": "http", "scheme": "bearer", "description": "a token that `waybill scim token` makes"},
    "client": {"type": "http", "scheme": "basic", "description": "the id and the secret of an application"},
}
