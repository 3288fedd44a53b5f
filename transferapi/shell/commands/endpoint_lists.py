"""endpoint-list, endpoint-search, endpoint-details: endpoints as records, with one set of fields.

The order is that of the historical shell: `endpoint-list -v` begins with Name, `endpoint-details` with ID. Fields of
ours follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from endpoints import bookmarks, endpoint_view, registry
from endpoints.activation.status import ActivationStatus
from endpoints.bandwidth import text_of_row
from endpoints.endpoint_view import EndpointView
from endpoints.models import Endpoint
from endpoints.network_use import MOST, NetworkLimits, limits
from endpoints.registry import SearchScope, canonical_name, server_uri
from identity.models import User
from transferapi.rest.transfer import endpoint_documents
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import UsageError
from transferapi.shell.options import Arguments, choice, flag, number, option
from transferapi.shell.output import FIELDS, FORM, Column, Table, field_name, left, value_text
from transferapi.tasks import queries

#: The most endpoints of one answer, and the names of one query.
PAGE = 1000
#: Endpoints that one line names.
MOST_NAMED = 100
#: Public endpoints that are listed.
MOST_PUBLIC = 10**6


@command("endpoint-list", "[OPTIONS] [ENDPOINT]", Heading.ENDPOINTS,
         flag("-p", "--public", about="the names of all public endpoints"),
         flag("-v", "--verbose", about="all fields of each endpoint"),
         FORM, FIELDS, summary="List endpoints, with the time left of your credentials")  # fmt: skip
def endpoint_list(context: Context, arguments: Arguments) -> None:
    """Lists your endpoints, and those of others that you have used within the last 30 days, have activated, or that
    are shared with you. Each line has the name and the time for which your credential is valid (HH:MM:SS), or `-`. The
    names of your own endpoints are not qualified. With an operand, only that endpoint is listed, and it is an error
    where it does not exist.

    With -v, each endpoint is a record: Name, Host(s), Subject(s), MyProxy Server, Credential Status (ACTIVE, EXPIRED,
    or n/a where you have not activated it), Credential Expires, Credential Subject, Credential Time Left, and more.
    With -f and without -v, only the values of the fields are printed, one a line.
    """
    if arguments["public"]:
        operands(arguments, 0)
        _show_public(context)
        return
    refs = operands(arguments, 0, 1)
    LIST.select(arguments)
    found = context.call(_listed, context.user, refs, with_documents=arguments["form"] == "json")
    if arguments["verbose"] or arguments["form"] == "json":
        LIST.show(context, arguments, found, single=bool(refs))
    elif arguments["fields"] is not None and arguments["form"] == "text":
        columns = LIST.select(arguments)
        context.out("".join(f"{value_text(one.get(row))}\n" for row in found for one in columns))
    else:
        _show_lines(context, arguments, found)


def _show_lines(context: Context, arguments: Arguments, found: Sequence[EndpointRecord]) -> None:
    if arguments["form"] != "text":
        arguments.values["fields"] = arguments["fields"] or "name,credential_time_left"
        LIST.show(context, arguments, found)
        return
    width = max((len(record.short_name) for record in found), default=0)
    context.out("".join(f"{record.short_name:<{width}} {record.time_left or '-':<8}\n" for record in found))


def _listed(user: User, refs: Sequence[str], *, with_documents: bool) -> list[EndpointRecord]:
    """The user's own endpoints first."""
    if refs:
        return records(user, [bookmarks.show_endpoint(user, refs[0])], with_documents=with_documents)
    rows: dict[object, Endpoint] = {}
    used = queries.endpoints_of(user, unfinished=False) | endpoint_view.activated_by(user)
    for scope in (SearchScope.MINE, SearchScope.SHARED_WITH_ME, SearchScope.RECENTLY_USED):
        found, _ = registry.search(user, scope=scope, among=used, limit=PAGE)
        rows |= {row.pk: row for row in found}
    shown = records(user, list(rows.values()), with_documents=with_documents)
    return sorted(shown, key=lambda record: (not record.own, record.short_name))


def _show_public(context: Context) -> None:
    for offset in range(0, MOST_PUBLIC, PAGE):
        page = context.call(endpoint_view.public_names, context.user, limit=PAGE, offset=offset)
        own = context.user.username
        context.out("".join(f"{name}\n" if owner == own else f"{owner}#{name}\n" for owner, name in page))
        if len(page) < PAGE:
            return


@command("endpoint-search", "[OPTIONS] [TEXT]", Heading.ENDPOINTS,
         option("--scope", metavar="SCOPE", read=choice(*SearchScope), default=SearchScope.ALL,
                about=f"one of {', '.join(SearchScope)}; all, by default, needs a text"),
         option("-l", "--limit", metavar="N", read=number(1, PAGE), default=100, about="at most so many; 100"),
         option("--offset", metavar="N", read=number(0, 10**6), default=0, about="leave out so many at the beginning"),
         FORM, FIELDS, summary="Search endpoints by words in their names and descriptions")  # fmt: skip
def endpoint_search(context: Context, arguments: Arguments) -> None:
    """Shows the endpoints that you may see and that match, each as a record as by `endpoint-details`. Each word of the
    text must be the beginning of a word of the name, owner, description, organization, department or keywords.
    """
    text = " ".join(word.text for word in arguments.operands)
    if arguments["scope"] is SearchScope.ALL and not text.strip():
        raise UsageError("a text is missing; or give a scope, such as --scope=my-endpoints")
    DETAILS.select(arguments)
    DETAILS.show(context, arguments, context.call(_found, context.user, arguments, text))


def _found(user: User, arguments: Arguments, text: str) -> list[EndpointRecord]:
    page = {"limit": arguments["limit"], "offset": arguments["offset"]}
    rows, _ = queries.search_endpoints(user, scope=arguments["scope"], fulltext=text, **page)
    return records(user, rows, with_documents=arguments["form"] == "json")


@command("endpoint-details", "[OPTIONS] ENDPOINT [ENDPOINT ...]", Heading.ENDPOINTS, FORM, FIELDS,
         summary="Show all fields of endpoints")  # fmt: skip
def endpoint_details(context: Context, arguments: Arguments) -> None:
    """Shows each endpoint as a record. Max Concurrency and Max Parallelism are numbers, also where the endpoint sets
    none. Credential Time Left is n/a where no credential is needed, or none is valid.
    """
    refs = operands(arguments, 1, MOST_NAMED)
    DETAILS.select(arguments)
    DETAILS.show(context, arguments, context.call(_known, context.user, arguments, refs), single=len(refs) == 1)


def _known(user: User, arguments: Arguments, refs: Sequence[str]) -> list[EndpointRecord]:
    rows = [bookmarks.show_endpoint(user, ref) for ref in refs]
    return records(user, rows, with_documents=arguments["form"] == "json")


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
    Column[EndpointRecord](
        "Bandwidth Limits",
        lambda record: ", ".join(map(text_of_row, (record.row.host or record.row).bandwidth_limits)),
    ),
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
