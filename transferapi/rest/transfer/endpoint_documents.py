"""The documents of endpoints and their servers. A field of the endpoint document is added here.

`endpoints/fields.py` lists the fields that clients may write, and checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from endpoints import bandwidth, endpoint_view, protocols
from endpoints import fields as rules
from endpoints.activation.status import ActivationStatus
from endpoints.connect.setup_keys import IssuedSetupKey
from endpoints.endpoint_view import EndpointView
from endpoints.models import Endpoint, Server
from endpoints.network_use import CUSTOM, MOST, WORDS, NetworkLimits, limits
from endpoints.protocols import PROTOCOLS, USUAL, of_scheme
from endpoints.registry import canonical_name, entity_type, server_uri
from identity import shown_names as shown_identity
from identity.models import User
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH, LISTED, ActionDocument
from transferapi.rest.openapi.document_types import (
    Always,
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    each,
    optional,
    part,
)
from transferapi.tasks import queries

from . import filters

_SCHEME = t.one_of(*PROTOCOLS)
_PINNED = protocols.listed(protocols.schemes(lambda row: row.pinned), "and")

SERVER = ResponseDocument[Server](
    "server",
    Field("id", t.NUMBER, "pk", 1),
    Field("hostname", t.TEXT, example="dtn1.example.org"),
    Field("port", {"type": "integer", "minimum": 1, "maximum": 65535}, example=2811),
    Field("scheme", _SCHEME),
    Field("uri", t.TEXT, server_uri, "gsiftp://dtn1.example.org:2811"),
    Field(
        "subject",
        t.about(
            f"subject of the certificate, where it differs from the host name; {_PINNED}: fingerprint of the key",
            t.MAYBE_TEXT,
        ),
        lambda row: row.subject or None,
    ),
    Field(
        "shown_host_key",
        t.about("another host key, which the server has shown since; write it as `subject` to accept it", t.MAYBE_TEXT),
        lambda row: row.shown_host_key or None,
    ),
    Field(
        "host_key_confirmed",
        t.about("a person gave or compared the host key in `subject`; null: the server has none", t.MAYBE_FLAG),
        lambda row: row.host_key_confirmed if of_scheme(row.scheme).pinned and row.subject else None,
    ),
    Field("is_connected", t.FLAG, Always(True), True),
    Field("is_paused", t.FLAG, Always(False)),
    *each("incoming_data_port_start incoming_data_port_end", t.MAYBE_NUMBER, Always(None)),
    *each("outgoing_data_port_start outgoing_data_port_end", t.MAYBE_NUMBER, Always(None)),
)
SERVER_LIST = ListDocument("endpoint_server_list", SERVER, LENGTH, Field("endpoint", t.TEXT, example="go#ep1"))
SERVER_ADDED = ActionDocument(
    "endpoint_server_add_result",
    Field("id", t.NUMBER, example=1),
    message="Server added successfully",
    resource="/endpoint/8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01/server",
)
SERVER_REQUEST = RequestDocument(
    "server",
    "",
    Field("hostname", t.about("give this or `uri`", t.MAYBE_TEXT)),
    Field("scheme", t.maybe({**_SCHEME, "default": USUAL})),
    Field("uri", t.about("gsiftp://host:port, in place of hostname, port and scheme", t.MAYBE_TEXT)),
    *optional(*SERVER.pick(["port", "subject"])),
    Field(
        "host_key_confirmed",
        t.about("true: you have compared the host key with `subject`, which must be given", t.MAYBE_FLAG),
    ),
    example={"hostname": "dtn2.example.org", "port": 2811},
)


def shown_name(endpoint: Endpoint) -> str:
    return endpoint.display_name or endpoint.name


@dataclass(frozen=True, slots=True)
class ShownEndpoint:
    """An endpoint as a user sees it. in_use: a task of the user that is not done uses it."""

    row: Endpoint
    seen: EndpointView
    in_use: bool = False

    @property
    def host(self) -> Endpoint | None:
        return self.row.host

    @property
    def known_host(self) -> Endpoint | None:
        """The host, for the users who may know on which endpoint the shared folder lies."""
        return self.row.host if self.seen.knows_host else None

    @property
    def host_name(self) -> str | None:
        return shown_name(self.known_host) if self.known_host else None

    @property
    def host_path(self) -> str | None:
        return self.row.host_path if self.known_host else None

    @property
    def limits(self) -> NetworkLimits:
        return limits(self.host or self.row)


def _texts(**described: str) -> tuple[Field[ShownEndpoint], ...]:
    """Texts of the row, null where they are empty. described: the description of each."""

    def of(name: str) -> Callable[[ShownEndpoint], object]:
        return lambda shown: getattr(shown.row, name) or None

    return tuple(
        Field(name, t.about(words, t.MAYBE_TEXT) if words else t.MAYBE_TEXT, of(name))
        for name, words in described.items()
    )


def _of_agent(name: str) -> Callable[[ShownEndpoint], object]:
    """Of an endpoint with an agent; null for others."""
    return lambda shown: shown.seen.presence and getattr(shown.seen.presence, name)


ACTIVATION = part(
    Field[ActivationStatus]("activated", t.FLAG, "active", True),
    Field[ActivationStatus](
        "expires_in",
        t.about("seconds; -1: never, 0: not activated", t.NUMBER),
        lambda found: found.seconds_left(datetime.now(UTC)),
        -1,
    ),
    Field[ActivationStatus]("expire_time", t.MAYBE_TIME, "expires_at", None),
)
_ELSEWHERE = t.about("not supported: true is refused", t.FLAG)

_LIMIT = t.object_of(
    {
        "limit": {"type": "integer", "minimum": bandwidth.LOWEST_RATE, "maximum": bandwidth.HIGHEST_RATE},
        "peer": t.MAYBE_UUID,
        "from": t.MAYBE_TEXT,
        "to": t.MAYBE_TEXT,
        "time_zone": t.TEXT,
        "days": t.list_of(t.one_of(*bandwidth.DAYS), nullable=True),
    }
)

ENDPOINT = ResponseDocument[ShownEndpoint](
    "endpoint",
    Field("id", t.UUID, "row.pk"),
    Field("entity_type", t.TEXT, lambda shown: entity_type(shown.row), "GCP_mapped_collection"),
    Field("display_name", t.TEXT, lambda shown: shown_name(shown.row), "Sample endpoint 1"),
    Field("name", t.about("the part after `#`; absent: the endpoint's id", t.TEXT), "row.name", "ep1"),
    Field("canonical_name", t.TEXT, lambda shown: canonical_name(shown.row), "go#ep1"),
    Field("username", t.TEXT, "row.owner.username", "go"),
    Field("owner_id", t.UUID, "row.owner_id", "5b7c1f52-0b3a-4c58-8f7a-2f0a0a6e1c10"),
    Field("owner_string", t.TEXT, lambda shown: shown_identity.name_of(shown.row.owner), "go@example.org"),
    *_texts(
        description="",
        organization="",
        department="",
        keywords="",
        contact_email="",
        contact_info="",
        info_link="",
        user_message="shown to who uses it",
        user_message_link="https or http: more to read about that",
    ),
    Field("force_encryption", t.about("every transfer from or to it is encrypted", t.FLAG), "row.force_encryption"),
    Field("force_verify", t.about("every transfer from or to it compares checksums", t.FLAG), "row.force_verify"),
    Field("disable_verify", t.about("no transfer from or to it compares checksums", t.FLAG), "row.disable_verify"),
    Field(
        "default_directory", t.about("the path of a listing that names none", t.TEXT), "row.default_directory", "/~/"
    ),
    Field("public", t.about("others may see it and move data from and to it", t.FLAG), "row.public", True),
    Field(
        "network_use",
        t.about(
            "limits of one task at this endpoint; custom: the four fields `max_` and `preferred_`",
            t.one_of(*WORDS, CUSTOM),
        ),
        lambda shown: (shown.host or shown.row).network_use,
    ),
    *each(
        " ".join(NetworkLimits._fields),
        t.about("null: not set", t.maybe({"type": "integer", "minimum": 1, "maximum": MOST})),
        of="limits",
    ),
    Field("in_use", t.FLAG),
    Field("my_effective_roles", t.list_of(t.TEXT), lambda shown: sorted(shown.seen.roles), ["administrator"]),
    *ACTIVATION.absent(),
    *_texts(
        myproxy_server="host or host:port of the MyProxy server that its users get credentials from",
        myproxy_dn="of the MyProxy server's certificate, where it is not its host name",
        oauth_server="https address of the OAuth server that its users get credentials from",
    ),
    Field(
        "data_hosts",
        t.about(
            "hosts besides its servers whose addresses these may name for data connections: "
            "data nodes of striped servers",
            t.list_of(t.TEXT, maxItems=rules.MAX_DATA_HOSTS),
        ),
        "row.data_hosts",
    ),
    Field(
        "bandwidth_limits",
        t.about(
            "of all transfers from and to it together, or with one peer: octets a second, always, or at a time of day "
            'in a time zone; from and to are "HH:MM"',
            t.list_of(_LIMIT, maxItems=bandwidth.MOST_ROWS),
        ),
        lambda shown: (shown.host or shown.row).bandwidth_limits,
        [
            {
                "limit": 50_000_000,
                "peer": None,
                "from": "08:00",
                "to": "18:00",
                "time_zone": "Europe/Berlin",
                "days": ["mon", "tue", "wed", "thu", "fri"],
            }
        ],
    ),
    *_texts(data_ports="of ssh servers: LOW-HIGH, where our server awaits data connections; null: any port"),
    Field(
        "jump_host",
        t.about("of ssh servers: the id of the endpoint through whose server they are reached", t.MAYBE_TEXT),
        lambda shown: shown.row.jump_host_id and str(shown.row.jump_host_id),
    ),
    Field("host_endpoint", t.MAYBE_TEXT, lambda shown: shown.known_host and canonical_name(shown.known_host)),
    *(
        Field[ShownEndpoint](name, t.MAYBE_TEXT, lambda shown: shown.row.host_id and str(shown.row.host_id))
        for name in ("host_endpoint_id", "mapped_collection_id", "sharing_target_endpoint")
    ),
    Field("host_endpoint_display_name", t.MAYBE_TEXT, "host_name"),
    Field("mapped_collection_display_name", t.MAYBE_TEXT, "host_name"),
    Field("host_path", t.MAYBE_TEXT),
    Field("sharing_target_root_path", t.MAYBE_TEXT, "host_path"),
    Field("shareable", t.FLAG, "seen.shareable", True),
    Field(
        "allow_guest_collections",
        t.about("whether users who may use this public endpoint may share its folders", t.FLAG),
        "row.allow_guest_collections",
        True,
    ),
    Field("acl_available", t.FLAG, lambda shown: shown.row.host_id is not None),
    Field("acl_editable", t.FLAG, "seen.editable"),
    Field("non_functional", t.FLAG, "seen.non_functional"),
    Field(
        "non_functional_endpoint_id",
        t.MAYBE_TEXT,
        lambda shown: str(shown.row.host_id) if shown.seen.non_functional else None,
    ),
    Field(
        "non_functional_endpoint_display_name",
        t.MAYBE_TEXT,
        lambda shown: shown.host_name if shown.seen.non_functional else None,
    ),
    Field(
        rules.PERSONAL, t.about("whether an agent serves it, a program for example on a laptop", t.FLAG), "row.personal"
    ),
    Field(
        "gcp_connected",
        t.about("state of its agent; null: the endpoint has no agent", t.MAYBE_FLAG),
        _of_agent("connected"),
    ),
    Field(
        "gcp_paused", t.about("state of its agent; null: the endpoint has no agent", t.MAYBE_FLAG), _of_agent("paused")
    ),
    Field(
        "authentication_timeout_mins",
        t.about("most minutes since the sign-in of its users; null: no limit", t.MAYBE_NUMBER),
        "row.authentication_timeout_mins",
    ),
    Field(
        "authentication_domains",
        t.about("domains of the identities with which its users sign in; null: any", t.maybe(t.list_of(t.TEXT))),
        "row.authentication_domains",
        None,
    ),
    Field("mfa_required", t.about("whether its users must sign in with a second factor", t.FLAG), "row.mfa_required"),
    # ---- fields of other kinds of endpoints
    *each(
        "preserve_modtime disable_anonymous_writes high_assurance requester_pays",
        _ELSEWHERE,
        Always(False),
    ),
    Field("restrict_transfers_to_high_assurance", t.maybe(_ELSEWHERE), Always(None)),
    *each("local_user_info_available french_english_bilingual s3_owner_activated is_go_storage", t.FLAG, Always(False)),
    *each("subscription_admin_verified skip_auto_delete", t.MAYBE_FLAG, Always(None)),
    *each("acl_max_expiration_period_mins auto_delete_timeout", t.MAYBE_NUMBER, Always(None)),
    *each(
        "globus_connect_setup_key subscription_id location authentication_policy_id storage_type gcs_version "
        "gcs_manager_url https_server tlsftp_server last_accessed_time guest_collection_activity_notification_policy "
        "associated_flow_policy s3_url",
        t.MAYBE_TEXT,
        Always(None),
    ),
    Field(
        "DATA",
        t.list_of(SERVER.ref),
        lambda shown: list(map(SERVER.document, shown.row.servers.all())),
        [SERVER.example],
    ),
)
ENDPOINT_LIST = ListDocument("endpoint_list", ENDPOINT, *LISTED, Field("has_next_page", t.FLAG))
ENDPOINT_CREATED = ActionDocument(
    "endpoint_create_result",
    Field("id", t.UUID),
    Field("canonical_name", t.TEXT, example="go#ep1"),
    Field("globus_connect_setup_key", t.MAYBE_TEXT),
    message="Endpoint created successfully",
    resource="/endpoint",
)
#: `endpoints.fields` checks them.
WRITABLE = optional(*ENDPOINT.pick(rules.WRITABLE))
ENDPOINT_CHANGE = RequestDocument(
    "endpoint_change",
    "",
    *WRITABLE,
    data_type="endpoint",
    example={"description": "Open to all projects", "public": True},
)
ENDPOINT_REQUEST = RequestDocument(
    "endpoint",
    "",
    *WRITABLE,
    Field("DATA", t.list_of(SERVER_REQUEST.schema, nullable=True)),
    example={
        "name": "dtn",
        "display_name": "The data transfer node",
        "public": False,
        "DATA": [{"DATA_TYPE": "server", "uri": "gsiftp://dtn1.example.org:2811"}],
    },
)


def endpoints(user: User, rows: Sequence[Endpoint], fields: str | None = None) -> list[dict[str, Any]]:
    """The documents of endpoints that this user may view, with a handful of database queries in all."""
    seen = endpoint_view.views_for(user, rows)
    shown_identity.load(row.owner for row in rows)
    used = queries.endpoints_of(user, unfinished=True) if rows else set()
    found = (_endpoint(ShownEndpoint(row, seen[row.pk], row.pk in used)) for row in rows)
    return [filters.pick(document, fields) for document in found]


def endpoint_list(
    user: User,
    rows: Sequence[Endpoint],
    fields: str | None,
    *,
    limit: int | None = None,
    offset: int = 0,
    more: bool = False,
) -> dict[str, Any]:
    """A page of endpoints. limit: None where these are all. more: whether there is another page."""
    found = endpoints(user, rows, fields)
    limit = len(found) if limit is None else limit
    return ENDPOINT_LIST.of_documents(found, limit=limit, offset=offset, has_next_page=more)


def _endpoint(shown: ShownEndpoint) -> dict[str, Any]:
    return ENDPOINT.document(shown) | ACTIVATION.values(shown.seen.activation_status)


def created(endpoint: Endpoint, key: IssuedSetupKey | None = None) -> dict[str, Any]:
    """The fields of the answer about a new endpoint."""
    text = key.text.value if key else None
    return {"id": str(endpoint.pk), "canonical_name": canonical_name(endpoint), "globus_connect_setup_key": text}
