"""The documents of Auth: users as identities, and their applications. They have no DATA_TYPE."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from oauth2_provider.models import Application

from identity.hidden import Secret
from identity.models import ClientSecret, User
from identity.provider import clients, identities, openid, registration, scopes
from identity.provider.applications import MAX_NAME, MAX_REDIRECT_URIS
from identity.provider.consents import Consent
from identity.provider.identities import Identity, IdentityProvider
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.document_types import (
    Always,
    AsJson,
    Field,
    RequestDocument,
    ResponseDocument,
    each,
    optional,
    part,
    wrapped,
)

Document = dict[str, Any]

_ALICE, _CLIENT = "5d3a6d0e-1c55-4e41-8f0a-9d7b6f6c1a01", "c7a1f9a4-6c2c-4b0e-9a55-2f1f8f3f5b02"
_PROVIDER_ID = "2b1f3f9e-7f3d-5d3f-9c43-0f5f6d1c7a10"
#: A time of the Auth API has fractions of seconds.
_MOMENT = {"type": "string", "format": "date-time", "example": "2026-01-15T12:00:00.123456+00:00"}


# ---- users


_PROVIDED = part(
    Field[Identity]("identity_provider", t.UUID, "provider_id", _PROVIDER_ID),
    Field("identity_provider_display_name", t.TEXT, "provider_name", "Waybill at waybill.example.org"),
    Field("organization", t.MAYBE_TEXT),
)
_IN_SET = part(
    Field[Identity]("sub", t.UUID, "id", _ALICE),
    Field("username", t.TEXT, example="alice@example.org"),
    Field("name", t.TEXT, example="Alice Liddell"),
    Field("email", t.MAYBE_TEXT, lambda one: one.email or None, "alice@example.org"),
    *_PROVIDED.fields,
    Field("last_authentication", t.MAYBE_NUMBER, lambda _: None),
)
USERINFO = ResponseDocument[None](
    "userinfo",
    Field("sub", t.UUID, example=_ALICE),
    Field("name", t.TEXT, example="Alice Liddell", sometimes=True),
    Field("preferred_username", t.TEXT, example="alice@example.org", sometimes=True),
    Field("email", t.MAYBE_TEXT, example="alice@example.org", sometimes=True),
    *(Field[None](one.name, one.schema, example=one.shown(), sometimes=True) for one in _PROVIDED.fields),
    Field("identity_set", t.list_of(_IN_SET.schema), example=[_IN_SET.example], sometimes=True),
    data_type=None,
)


def userinfo(user: User, names: Collection[str]) -> Document:
    """The claims about the user that these scopes allow (OpenID Connect Core section 5.3)."""
    found = openid.claims(user, names)
    if scopes.PROFILE in names:
        found |= _PROVIDED.document(identities.shown(user))
    if scopes.VIEW_IDENTITIES in names:
        found["identity_set"] = [_IN_SET.document(one) for one in identities.of(user)]
    return found


@dataclass(frozen=True, slots=True)
class ShownUser:
    """viewer: the user who asks, and may see only their own address; None: the document shows no address."""

    identity: Identity
    viewer: User | None


IDENTITY = ResponseDocument[ShownUser](
    "identity",
    Field("id", t.UUID, "identity.id", _ALICE),
    Field("username", t.TEXT, "identity.username", "alice@example.org"),
    Field("name", t.TEXT, "identity.name", "Alice Liddell"),
    Field(
        "email",
        t.about("null: the identity is not your own", t.MAYBE_TEXT),
        lambda shown: (shown.identity.email or None) if shown.identity.user == shown.viewer else None,
        "alice@example.org",
    ),
    Field("organization", t.MAYBE_TEXT, "identity.organization"),
    Field("identity_provider", t.UUID, "identity.provider_id", _PROVIDER_ID),
    Field("identity_type", t.one_of("login"), Always("login")),
    Field(
        "status",
        t.about("closed: this user can no longer sign in", t.one_of("used", "closed")),
        lambda shown: "used" if shown.identity.user.is_active else "closed",
    ),
    data_type=None,
)
IDENTITY_ANSWER = wrapped("identity_answer", "identity", IDENTITY)
IDENTITIES = wrapped("identities", "identities", IDENTITY, many=True)
IDENTITY_PROVIDER = ResponseDocument[IdentityProvider](
    "identity_provider",
    Field("id", t.UUID, example=_PROVIDER_ID),
    Field("name", t.TEXT, example="Waybill at waybill.example.org"),
    Field("short_name", t.TEXT, example="waybill"),
    Field("domains", t.list_of(t.TEXT), example=["waybill.example.org"]),
    Field("alternative_names", t.list_of(t.TEXT), lambda _: []),
    data_type=None,
)
IDENTITY_PROVIDERS = wrapped("identity_providers", "identity_providers", IDENTITY_PROVIDER, many=True)


CONSENT = ResponseDocument[Consent](
    "consent",
    Field("id", t.about("its number in this list", t.NUMBER), "number", 1),
    Field("client", t.about("of a dependent scope: the service that needs it", t.UUID), example=_CLIENT),
    Field("scope", t.UUID, lambda one: uuid.uuid5(uuid.NAMESPACE_URL, one.scope)),
    Field("scope_name", t.TEXT, "scope", "urn:globus:auth:scope:transfer.api.globus.org:all"),
    Field("effective_identity", t.UUID, "user_id", _ALICE),
    Field("dependency_path", t.about("ids from the root to this one", t.list_of(t.NUMBER)), "way", [1]),
    Field("status", t.one_of("approved"), Always("approved")),
    Field("created", _MOMENT, AsJson(lambda one: one.created.isoformat())),
    *(Field[Consent](name, _MOMENT, AsJson(lambda one: one.updated.isoformat())) for name in ("updated", "last_used")),
    Field("allows_refresh", t.FLAG, Always(True), True),
    Field("auto_approved", t.FLAG, Always(False)),
    Field("atomically_revocable", t.FLAG, "optional", False),
    data_type=None,
)
CONSENTS = wrapped("consents", "consents", CONSENT, many=True)


# ---- applications


def _grant_types(application: Application) -> list[str]:
    asks = ["authorization_code", "refresh_token"] if clients.may_ask_users(application) else []
    return [*asks, "client_credentials"] if clients.may_act_alone(application) else asks


def _template(application: Application) -> str | None:
    return next(iter(registration.TEMPLATES)) if clients.is_registered_by_template(application) else None


_ALGORITHM = t.about(
    "null: by the redirect URI, RS512 for the framework of portals", t.maybe(t.one_of("RS256", "RS512"))
)
_ROTATE = "each use replaces a refresh token, and a second use of an old one ends the sign-in"
_GRANTS = ("authorization_code", "refresh_token", "client_credentials")
_KINDS = ("confidential_client", "public_installed_client")
CLIENT = ResponseDocument[Application](
    "client",
    Field("id", t.UUID, "client_id", _CLIENT),
    Field("name", t.TEXT, example="The portal of the beamline"),
    Field("public_client", t.FLAG, lambda row: not clients.is_confidential(row)),
    Field("client_type", t.one_of(*_KINDS), lambda row: _KINDS[not clients.is_confidential(row)]),
    Field("visibility", t.one_of("private"), Always("private")),
    Field(
        "redirect_uris",
        t.list_of(t.TEXT),
        lambda row: row.redirect_uris.split(),
        ["https://portal.example.org/callback"],
    ),
    Field("grant_types", t.list_of(t.one_of(*_GRANTS)), _grant_types, list(_GRANTS)),
    *(Field[Application](name, t.list_of(t.TEXT), lambda _: []) for name in ("scopes", "fqdns")),
    Field(
        "links",
        t.object_of(t.properties("privacy_policy terms_and_conditions", t.MAYBE_TEXT)),
        lambda _: {"privacy_policy": None, "terms_and_conditions": None},
        {"privacy_policy": None, "terms_and_conditions": None},
    ),
    Field("parent_client", t.MAYBE_UUID, _template, None),
    *each("project required_idp preselect_idp", t.MAYBE_UUID, Always(None)),
    Field("rotate_refresh_tokens", t.about(_ROTATE, t.FLAG), clients.rotates, False),
    Field(
        "id_token_signed_response_alg",
        _ALGORITHM,
        lambda row: clients.options(row).id_token_algorithm or None,
        None,
    ),
    Field("prompt_for_named_grant", t.FLAG, Always(False)),
    Field("userinfo_from_effective_identity", t.FLAG, Always(True), True),
    data_type=None,
)
CLIENT_ANSWER = wrapped("client_answer", "client", CLIENT)
CLIENTS = wrapped("clients", "clients", CLIENT, many=True)


CREDENTIAL = ResponseDocument[ClientSecret](
    "credential",
    Field("id", t.UUID, "pk"),
    Field("name", t.TEXT, example="of the nightly job"),
    Field("client", t.UUID, "application.client_id", _CLIENT),
    Field("created", _MOMENT, AsJson(lambda row: row.created_at.isoformat())),
    Field(
        "secret",
        t.about("present in the answer that creates it", t.MAYBE_TEXT),
        Always(None),
        "wbs_this-is-shown-once",
    ),
    data_type=None,
)
CREDENTIAL_ANSWER = wrapped("credential_answer", "credential", CREDENTIAL)
CREDENTIALS = wrapped("credentials", "credentials", CREDENTIAL, many=True)
CLIENT_MADE = ResponseDocument[None](
    "client_made",
    Field("client", CLIENT.ref, example=CLIENT.example),
    Field(
        "included",
        t.object_of({"client_credential": CREDENTIAL.ref}),
        example={"client_credential": CREDENTIAL.example},
        sometimes=True,
    ),
    data_type=None,
)


def credential(row: ClientSecret, secret: Secret | None = None) -> Document:
    """secret: only when it has just been made, and never again."""
    return CREDENTIAL.document(row) | {"secret": None if secret is None else secret.value}


_NAME = Field[Any]("name", t.about(f"one line of at most {MAX_NAME} characters", t.TEXT))
_SPEC = (
    Field[Any]("template_id", t.about("of a program that registers itself: it needs no token then", t.MAYBE_TEXT)),
    Field[Any]("public_client", t.about("it has no secret, for it could not keep one", t.MAYBE_FLAG)),
    Field[Any]("client_type", t.maybe(t.one_of("confidential_client", "client_identity", "public_installed_client"))),
    Field[Any](
        "redirect_uris",
        t.about(
            f"https, or http on the loopback interface (with any port then); at most {MAX_REDIRECT_URIS}",
            t.maybe(t.list_of(t.TEXT)),
        ),
    ),
    Field[Any]("rotate_refresh_tokens", t.about(_ROTATE, t.MAYBE_FLAG)),
    Field[Any]("id_token_signed_response_alg", _ALGORITHM),
)
CLIENT_SPEC = RequestDocument("client_spec", "", *optional(_NAME), *_SPEC, data_type=None)
CLIENT_REQUEST = RequestDocument(
    "client",
    "client",
    Field(
        "client",
        t.object_with("name", {one.name: one.schema for one in (_NAME, *_SPEC)}),
        example={
            "name": "The portal of the beamline",
            "public_client": False,
            "redirect_uris": ["https://portal.example.org/callback"],
        },
    ),
    data_type=None,
)
CLIENT_CHANGE = RequestDocument(
    "client_change",
    "client",
    Field("client", CLIENT_SPEC.schema, example={"redirect_uris": ["https://portal.example.org/new-callback"]}),
    data_type=None,
)
CREDENTIAL_REQUEST = RequestDocument(
    "credential",
    "credential",
    Field("credential", t.object_with("name", {"name": t.TEXT}), example={"name": "of the nightly job"}),
    data_type=None,
)
