"""The OpenAPI description: the decorator of views, and the components.

The routes that are plain functions are described here, too: OAuth2, OpenID Connect and SCIM, whose forms and documents
are those of their standards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from identity.provider import scopes
from transferapi.rest.http.errors import ERROR_HEADER

from . import components
from .types import TEXT, Schema, list_of, properties, ref

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


F = TypeVar("F", bound=Callable[..., Any])

_QUERY: dict[str, str] = {
    "ids": "ids, with commas",
    "usernames": "user names, with commas, in place of ids",
    "domains": "domains, with commas",
    "provision": "whether to make who is not there; nobody is made here",
    "all": "also what other applications have; it is always all",
    "fields": "only these fields of each document, with commas",
    "filter": "conditions such as status:ACTIVE,INACTIVE/label:~night*; of a listing, several such are alternatives",
    "orderby": "a field, with ASC or DESC; several with commas",
    "source_endpoint": "id, owner#name, or the name of one of your own",
    "destination_endpoint": "the same",
    "files": "how many, 1 when it is not given",
    "bytes": "how many in all of them",
    "limit": "how many at most",
    "offset": "how many to pass over",
    "order": "submitted_at asc, or submitted_at desc",
    "include": "more of a group, with commas: memberships, allowed_actions, child_ids",
    "statuses": "how you stand to them, with commas: active (when it is not given), invited, pending ...",
    "if_expires_in": "seconds: only a credential that is valid for longer is good enough",
    "marker": "where to go on: next_marker of the page before",
    "path": "absolute, or from the home as /~/...",
    "name": "an entry of the folder; may be given repeatedly; none: the folder with all that is in it",
    "upload_id": "the client's own name for this upload, the same for all its parts: letters, digits, _ and -",
    "show_hidden": "0 leaves out names that begin with a dot",
    "incomplete": "1 shows what there is of an incomplete listing of the endpoint's server; else it is an error",
    "filter_fulltext": "words that begin words of the endpoint's texts",
    "filter_status": "ACTIVE, INACTIVE, SUCCEEDED, FAILED; several with commas",
    "filter_task_id": "ids of at most 50 tasks, with commas; stands alone",
    "filter_endpoint": "id, owner#name, or the name of one of your own; with what is shared of it",
    "filter_endpoint_use": "source or destination: as what filter_endpoint was used",
    "filter_is_paused": "1 or 0, with a filter_status within ACTIVE,INACTIVE",
    "filter_completion_time": "from,to; either may be empty",
    "filter_min_faults": "how many at least",
    "filter_local_user": "an account of a server; none is known of any task, so that nothing is found",
    "filter_is_error": "1: errors only, 0: the others",
    "last_key": "where to go on: last_key of the page before",
    "filter_scope": "all, my-endpoints, administered-by-me ...",
    "filter_owner_id": "the id of the owner",
    "filter_entity_type": "kinds of endpoints, with commas: GCP_mapped_collection, GCP_guest_collection (shared ones)",
    "filter_host_endpoint": "the endpoint that others are shared from",
    "filter_non_functional": "1: shared endpoints whose host does not let their owner in; 0: all others",
    "max_results": "how many at most",
    "next_token": "where to go on: next_token of the page before",
    "text": "a part of the name, the full name or the address",
    "is_active": "1: active users only, 0: deactivated ones only",
    "since": "from this time on, such as 2027-01-31T12:00:00Z",
    "until": "before this time",
    "user_id": "about this user, or by this user",
    "what": "only this act",
    "form": "jsonl (when it is not given) or csv",
}
_NUMBERS = {"if_expires_in", "max_results", "limit", "offset", "marker", "files", "bytes"}
_IN_PATH = {
    "client": "the application's id",
    "credential": "the id of the secret (not the secret)",
    "identity": "the user's id",
    "endpoint": "id, owner#name (percent-encoded: owner%23name), or the name of one of your own",
    "task": "the task's id",
    "server": "the server's number",
    "webhook": "the webhook's id",
    "pause_rule": "the rule's id",
    "admin_cancel": "the id of what was asked for",
    "bookmark": "the bookmark's id",
    "tunnel": "the tunnel's id; there is none",
    "stream": "the stream access point's id; there is none",
    "group": "the group's id",
    "timer": "the timer's id",
    "subscription": "the subscription's id; there is none",
    "token": "the token's id (not the token)",
    "subject": "the id of the certificate subject",
    "key": "the id or the fingerprint of the ssh key",
    "role": "the role's id",
    "access": "the access rule's id",
    "passkey": "id of a passkey of yours",
    "invitation": "the invitation's id",
    "session": "id of a session of yours, as the list has it",
}


def _header(name: str, words: str) -> OpenApiParameter:
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=words)


def _query(names: str) -> list[OpenApiParameter]:
    return [
        OpenApiParameter(name, int if name in _NUMBERS else str, OpenApiParameter.QUERY, description=_QUERY[name])
        for name in names.split()
    ]


def _errors(media_type: str = "application/json", document: str = "error") -> dict[tuple[str, str], Schema]:
    return {("4XX", media_type): ref(document), ("5XX", media_type): ref(document)}


_ERROR_HEADER = OpenApiParameter(
    ERROR_HEADER, str, OpenApiParameter.HEADER, description="the code of the error", response=["4XX", "5XX"]
)
_BINARY: Schema = {"type": "string", "format": "binary"}
_OCTETS = {"application/octet-stream": _BINARY}
_OF_PARTS = [
    _header("Content-Range", "which part this is, such as bytes 0-499/1234"),
    _header("If-None-Match", "*: replace nothing (412)"),
]


def operation(
    summary: str,
    *,
    answer: str,
    many: bool = False,
    status: int = 200,
    body: str | None = None,
    query: str = "",
    media_type: str = "application/json",
    error: str = "error",
    takes_octets: bool = False,
) -> Callable[[F], F]:
    """Describe a method of a view. body: the document of the request. answer: that of the response; many: an array.

    query: names of parameters. media_type: of the response, also of errors. error: the document of errors.
    takes_octets: the body is a file.
    """
    schema = components.REQUESTS[body] if body else {}
    shown = [OpenApiExample(body, components.REQUEST_EXAMPLES[body], request_only=True)] if body else []
    describe = extend_schema(
        summary=summary,
        parameters=[*_query(query), *(_OF_PARTS if takes_octets else ()), _ERROR_HEADER],
        request=_OCTETS if takes_octets else {"application/json": schema} if body else None,
        responses={
            (status, media_type): list_of(ref(answer)) if many else ref(answer),
            **_errors(media_type, error),
        },
        examples=shown,
    )

    def named(method: F) -> F:
        method.body_schema = schema  # type: ignore[attr-defined]  # for `http.content_negotiation.XMLParser`
        return describe(method)

    return named


def streaming(summary: str, shape: Schema) -> Callable[[F], F]:
    """Describe a method whose answer is a stream of events."""
    where = "where to go on: an id of this stream; of one task 0: all from the beginning. Else what comes from now on"
    places = [
        _header("Last-Event-ID", where),
        OpenApiParameter("last_event_id", str, OpenApiParameter.QUERY, description="the same, without a header"),
    ]
    return extend_schema(
        summary=summary,
        parameters=[*places, _ERROR_HEADER],
        responses={
            (200, "text/event-stream"): shape,
            204: OpenApiResponse(description="the task is done, and all its events were sent"),
            **_errors(),
        },
    )


def lines(summary: str, media_type: str, query: str) -> Callable[[F], F]:
    """Describe a method whose answer is a line of JSON for each row."""
    return extend_schema(
        summary=summary,
        parameters=[*_query(query), _ERROR_HEADER],
        responses={(200, media_type): {"type": "string"}, **_errors()},
    )


def download(summary: str) -> Callable[[F], F]:
    """Describe a method whose answer is a file of an endpoint, or a part of it (RFC 9110 section 14)."""
    asked = [
        _header("Range", "one range, such as bytes=0-499"),
        _header("If-Range", "the ETag of the part that is there"),
    ]
    return extend_schema(
        summary=summary,
        parameters=[*_query("path"), *asked, _ERROR_HEADER],
        responses={
            (200, "application/octet-stream"): _BINARY,
            (206, "application/octet-stream"): _BINARY,
            304: OpenApiResponse(description="the file is the one of If-None-Match"),
            **_errors(),
        },
    )


def archive(summary: str) -> Callable[[F], F]:
    """Describe a method whose answer is a zip archive of entries of a folder."""
    return extend_schema(
        summary=summary,
        parameters=[*_query("path name"), _ERROR_HEADER],
        responses={(200, "application/zip"): _BINARY, **_errors()},
    )


class Described(AutoSchema):
    """Operation ids and tags from the resource."""

    def get_tags(self) -> list[str]:
        words = self.path.strip("/").split("/")
        if words[0] not in ("v0.10", "v2"):
            return [words[0]]
        return [words[1].split("_")[0] if len(words) > 1 else "service"]

    def get_description(self) -> str:  # type: ignore[override]
        """Empty: the summary suffices."""
        return ""

    def get_operation_id(self) -> str:
        """Such as `get_task_event_list`; of the other APIs with the parts that vary: `get_groups_group`."""
        version, *words = self.path.strip("/").split("/")
        if version == "v0.10":
            return "_".join([self.method.lower(), *(word for word in words if not word.startswith("{"))])
        words = words if version == "v2" else [version, *words]
        return "_".join([self.method.lower(), *(word.strip("{}") for word in words)])


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How to sign in, for the description."""

    target_class = "transferapi.rest.http.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The session cookie of the pages."""

    target_class = "transferapi.rest.http.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class CertificateScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Not described: OpenAPI 3.0 has no TLS client certificates."""

    target_class = "transferapi.rest.http.authentication.CertificateAuthentication"
    name: list[str] = []  # noqa: RUF012

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        return []

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, Any]]:
        return []


class ClientScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """An application by its id and secret."""

    target_class = "transferapi.rest.auth.client_authentication.ClientAuthentication"
    name = "client"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "basic"}


class OwnClientScheme(ClientScheme):  # type: ignore[no-untyped-call]
    """An application that asks about itself."""

    target_class = "transferapi.rest.auth.client_authentication.OwnClientAuthentication"
    name = "client_itself"


def complete(result: dict[str, Any], **_: object) -> dict[str, Any]:
    """The last step of drf-spectacular: add the documents as components, and descriptions of path parameters."""
    result["components"]["schemas"] = {
        name: {**schema, "example": components.RESPONSE_EXAMPLES[name]} for name, schema in components.RESPONSES.items()
    }
    for methods in result["paths"].values():
        for method in methods.values():
            for parameter in method.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["description"] = _IN_PATH[parameter["name"]]
                elif parameter["name"] == "format":  # of Django REST framework
                    parameter["description"] = "in place of the Accept header"
    result["paths"] |= PATHS
    result["components"]["securitySchemes"] |= SECURITY
    return result
