"""The documents of a user's tokens, subjects, ssh keys, passkeys, sessions, identities: extensions of ours."""

from __future__ import annotations

from collections.abc import Collection

from identity.models import ApiToken, CertificateSubject, LinkedIdentity, Passkey
from identity.sessions import OpenSession
from identity.ssh_keys import SshKey
from identity.ssh_public_keys import ALGORITHMS
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH, ActionDocument
from transferapi.rest.openapi.document_types import (
    AsJson,
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    optional,
)

_LABEL = t.about("one line of at most 128 characters", t.TEXT)
_TOKEN_LABEL = Field[ApiToken]("label", _LABEL, example="nightly backup")
_SUBJECT_LABEL = Field[CertificateSubject]("label", _LABEL, example="the laptop")

API_TOKEN = ResponseDocument[ApiToken](
    "api_token",
    Field("id", t.UUID, "pk"),
    _TOKEN_LABEL,
    Field("created_time", t.TIME, "created_at"),
    Field("last_used_time", t.MAYBE_TIME, "last_used_at"),
    Field("expire_time", t.MAYBE_TIME, "expires_at"),
)
API_TOKEN_LIST = ListDocument("api_token_list", API_TOKEN, LENGTH)
API_TOKEN_CREATED = ActionDocument(
    "api_token_create_result",
    Field("id", t.UUID),
    Field("token", t.about("shown this once", t.TEXT), example="wb_..."),
    Field("expire_time", t.MAYBE_TIME),
    message="The token is made; this is the only time it is shown",
    resource="/v2/api/tokens",
)
API_TOKEN_REQUEST = RequestDocument(
    "api_token",
    "",
    *optional(_TOKEN_LABEL),
    Field("expires_in", t.about("seconds; absent: until it is revoked", t.MAYBE_NUMBER)),
    example={"label": "nightly backup", "expires_in": 31_536_000},
)
CERTIFICATE_SUBJECT = ResponseDocument[CertificateSubject](
    "certificate_subject",
    Field("id", t.UUID, "pk"),
    Field(
        "subject",
        t.about('as the grid writes it: "/O=Grid/OU=Site/CN=Name"', t.TEXT),
        example="/O=Grid/OU=Site/CN=Alice",
    ),
    _SUBJECT_LABEL,
    Field("created_time", t.TIME, "created_at"),
)
CERTIFICATE_SUBJECT_LIST = ListDocument("certificate_subject_list", CERTIFICATE_SUBJECT, LENGTH)
CERTIFICATE_SUBJECT_REQUEST = RequestDocument(
    "certificate_subject",
    "",
    Field("subject", t.about("absent: the subject of the client certificate of this connection", t.MAYBE_TEXT)),
    *optional(_SUBJECT_LABEL),
    example={"subject": "/O=Grid/OU=Site/CN=Alice", "label": "the laptop"},
)

_COMMANDS = t.about("the only commands of the ssh shell that it may run; null: all", t.maybe(t.list_of(t.TEXT)))
_ENDPOINTS = "the only endpoints that it reaches; null: all"
_KEY_LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE8M0d8XnEkYwPYvWmCn0gkTzCv2wkhsrQnDs2Bv1YkZ"
_KEY_LABEL = Field[SshKey]("label", _LABEL, example="backup host")

SSH_KEY = ResponseDocument[SshKey](
    "ssh_key",
    Field("id", t.UUID),
    _KEY_LABEL,
    Field("algorithm", t.one_of(*ALGORITHMS)),
    Field("fingerprint", t.TEXT, example="SHA256:m3pUZZ3xZgDbSjTRkHqZmN0bYB1fJQfN6mI2vXcW4zA"),
    Field("public_key", t.TEXT, "line", example=_KEY_LINE),
    Field("created_time", t.TIME, "created_at"),
    Field("last_used_time", t.MAYBE_TIME, "last_used_at"),
    Field("expire_time", t.MAYBE_TIME, "expires_at"),
    Field("commands", _COMMANDS, AsJson(lambda key: _sorted(key.restrictions.commands)), example=["ls", "transfer"]),
    Field(
        "endpoints",
        t.about(_ENDPOINTS, t.maybe(t.list_of(t.UUID))),
        AsJson(lambda key: _sorted(key.restrictions.endpoints)),
    ),
)
SSH_KEY_LIST = ListDocument("ssh_key_list", SSH_KEY, LENGTH)
SSH_KEY_REQUEST = RequestDocument(
    "ssh_key",
    "public_key",
    Field("public_key", t.about("the line of the .pub file, or the form of RFC 4716", t.TEXT), example=_KEY_LINE),
    *optional(_KEY_LABEL),
    Field("expire_time", t.about("absent: it does not expire", t.MAYBE_TIME)),
    Field("commands", _COMMANDS),
    Field("endpoints", t.about(_ENDPOINTS, t.maybe(t.list_of(t.ENDPOINT)))),
    example={"label": "backup host", "commands": ["ls", "transfer"]},
)

PASSKEY = ResponseDocument[Passkey](
    "passkey",
    Field("id", t.UUID, "pk"),
    Field("label", _LABEL, example="laptop"),
    Field("created_time", t.TIME, "created_at"),
    Field("last_used_time", t.MAYBE_TIME, "last_used_at"),
    Field(
        "copied_time",
        t.about(
            "the time at which it was disabled, because its counter went back; null: it is not disabled", t.MAYBE_TIME
        ),
        "copied_at",
        None,
    ),
)
PASSKEY_LIST = ListDocument("passkey_list", PASSKEY, LENGTH)
SESSION = ResponseDocument[OpenSession](
    "session",
    Field("id", t.TEXT, example="7d1c5b0f6a2e4c8b9a3d5e7f10213243"),
    Field("begun_time", t.MAYBE_TIME, "begun_at"),
    Field("last_used_time", t.MAYBE_TIME, "last_used_at"),
    Field("expire_time", t.TIME, "expires_at"),
    Field("way", t.about("password, code, second, passkey, link, provider; empty: unknown", t.TEXT), example="passkey"),
    Field("address", t.TEXT, example="192.0.2.7"),
    Field("browser", t.about("the User-Agent", t.TEXT), example="Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"),
    Field("is_this", t.about("whether this request used this session", t.FLAG), example=False),
)
SESSION_LIST = ListDocument("session_list", SESSION, LENGTH)
LINKED_IDENTITY = ResponseDocument[LinkedIdentity](
    "linked_identity",
    Field("id", t.UUID, "pk"),
    Field("username", t.about("`name@domain`", t.TEXT), example="al@example.org"),
    Field(
        "provider",
        t.about("the provider that has proven the identity", t.TEXT),
        example="oidc:https://id.example.org/realms/lab",
    ),
    Field("name", t.TEXT, example="Al Liddell"),
    Field("organization", t.TEXT, example="Example Laboratory"),
    Field("email", t.TEXT, example="al@example.org"),
    Field("is_primary", t.about("whether others see this identity for you", t.FLAG), "primary"),
    Field("linked_time", t.TIME, "linked_at"),
    Field("last_used_time", t.MAYBE_TIME, "last_used_at"),
)
LINKED_IDENTITY_LIST = ListDocument("linked_identity_list", LINKED_IDENTITY, LENGTH)


def _sorted(names: Collection[object] | None) -> list[str] | None:
    return None if names is None else sorted(map(str, names))
