"""The record of an endpoint in `endpoint-list -v`, `endpoint-details` and `endpoint-search`: one set of fields.

The order is that of the historical shell: `endpoint-list -v` begins with Name, `endpoint-details` with ID. Fields of
ours follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from endpoints import endpoint_view
from endpoints.activation.status import ActivationStatus
from endpoints.endpoint_view import EndpointView
from endpoints.models import Endpoint
from endpoints.network_use import MOST, NetworkLimits, limits
from endpoints.registry import canonical_name, server_uri
from identity.models import User
from transferapi.rest.transfer import endpoint_documents

from .output import Column, Table, field_name, left

#: Where an endpoint sets none: the bounds of the service, and the plan with which a task begins.
DEFAULTS = NetworkLimits(MOST, 2, MOST, 4)


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """An endpoint as one user sees it at one time. expired: the user has activated it, and no credential is valid."""

    row: Endpoint
    seen: EndpointView
    own: bool
    expired: bool
    document: dict[str, Any] = field(repr=False)
    now: datetime

    @property
    def status(self) -> ActivationStatus:
        return self.seen.activation_status

    @property
    def short_name(self) -> str:
        """The names of the user's own endpoints are not qualified."""
        return self.row.name if self.own else canonical_name(self.row)

    @property
    def credential_status(self) -> str | None:
        if self.status.active:
            return "ACTIVE"
        return "EXPIRED" if self.expired else None

    @property
    def subject(self) -> str | None:
        """The credential of a shared endpoint is its owner's: nobody else sees its subject."""
        held = self.status.credential
        return held.subject if held and (self.row.host_id is None or self.own) else None

    @property
    def time_left(self) -> str | None:
        if self.status.expires_at is None:
            return None
        return left(self.status.seconds_left(self.now))

    @property
    def host(self) -> Endpoint | None:
        return self.row.host if self.seen.knows_host else None


def records(user: User, rows: Sequence[Endpoint], *, with_documents: bool) -> list[EndpointRecord]:
    """Call it by `Context.call`. with_documents: the output is JSON."""
    now = datetime.now(UTC)
    seen = endpoint_view.views_for(user, rows, now)
    activated = endpoint_view.activated_by(user)
    shown = endpoint_documents.endpoints(user, rows) if with_documents else [{}] * len(rows)
    return [
        EndpointRecord(row, seen[row.pk], row.owner_id == user.pk, row.pk in activated, document, now)
        for row, document in zip(rows, shown, strict=True)
    ]


def _field(key: str) -> Column[EndpointRecord]:
    """A field of the endpoint under its own name."""
    name = field_name(key)
    return Column(key, lambda record: getattr(record.row, name))


def _switch(key: str) -> Column[EndpointRecord]:
    name = field_name(key)
    return Column(key, lambda record: "yes" if getattr(record.row, name) else "no")


def _limit(key: str) -> Column[EndpointRecord]:
    name = field_name(key)
    return Column(key, lambda record: getattr(limits(record.row.host or record.row), name) or getattr(DEFAULTS, name))


_HOSTS = Column[EndpointRecord]("Host(s)", lambda record: ", ".join(map(server_uri, record.row.servers.all())))
_SUBJECTS = Column[EndpointRecord](
    "Subject(s)", lambda record: ", ".join(filter(None, (one.subject for one in record.row.servers.all())))
)
_MYPROXY = _field("MyProxy Server")
_CREDENTIAL = (
    Column[EndpointRecord]("Credential Status", lambda record: record.credential_status),
    Column[EndpointRecord]("Credential Expires", lambda record: record.status.expires_at),
    Column[EndpointRecord]("Credential Subject", lambda record: record.subject),
    Column[EndpointRecord]("Credential Time Left", lambda record: record.time_left),
)
_OWNER = (
    Column[EndpointRecord]("ID", lambda record: record.row.pk),
    Column[EndpointRecord]("Owner", lambda record: record.row.owner.username),
)
_DISPLAY_NAME = _field("Display Name")
_HOST = (
    Column[EndpointRecord]("Host Endpoint", lambda record: record.host and record.host.pk),
    Column[EndpointRecord]("Host Endpoint Name", lambda record: record.host and canonical_name(record.host)),
)
_OURS = (
    Column[EndpointRecord]("Host Path", lambda record: record.row.host_path if record.host else None),
    *map(_field, ("MyProxy DN", "OAuth Server")),
    _switch("Public"),
    *map(_field, ("Default Directory", "Description", "Organization", "Department", "Keywords")),
    *map(_field, ("Contact Email", "Contact Info", "Info Link")),
    Column[EndpointRecord]("Network Use", lambda record: (record.row.host or record.row).network_use),
    *map(_limit, ("Max Concurrency", "Preferred Concurrency", "Max Parallelism", "Preferred Parallelism")),
    *map(_switch, ("Force Encryption", "Force Verify", "Disable Verify")),
    Column[EndpointRecord]("My Roles", lambda record: ", ".join(sorted(record.seen.roles))),
)


def _document(record: EndpointRecord) -> dict[str, Any]:
    return record.document


#: `endpoint-list -v`.
LIST = Table[EndpointRecord](
    Column("Name", lambda record: record.short_name, ("legacy_name",)),
    *(_HOSTS, _SUBJECTS, _MYPROXY, *_CREDENTIAL, *_OWNER, _DISPLAY_NAME, *_HOST, *_OURS),
    document=_document,
)
#: `endpoint-details` and `endpoint-search`.
DETAILS = Table[EndpointRecord](
    *_OWNER,
    Column("Legacy Name", lambda record: canonical_name(record.row), ("name",)),
    *(_DISPLAY_NAME, *_HOST, *_CREDENTIAL, _HOSTS, _SUBJECTS, _MYPROXY, *_OURS),
    document=_document,
)
