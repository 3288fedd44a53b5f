"""endpoint-list, endpoint-search, endpoint-details: endpoints as records."""

from __future__ import annotations

from collections.abc import Sequence

from endpoints import bookmarks, endpoint_view, registry
from endpoints.models import Endpoint
from endpoints.registry import SearchScope
from identity.models import User
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.endpoint_records import DETAILS, LIST, EndpointRecord, records
from transferapi.shell.errors import UsageError
from transferapi.shell.options import Arguments, choice, flag, number, option
from transferapi.shell.output import FIELDS, FORM, value_text
from transferapi.tasks import queries

#: The most endpoints of one answer, and the names of one query.
MOST = 1000
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
        found, _ = registry.search(user, scope=scope, among=used, limit=MOST)
        rows |= {row.pk: row for row in found}
    shown = records(user, list(rows.values()), with_documents=with_documents)
    return sorted(shown, key=lambda record: (not record.own, record.short_name))


def _show_public(context: Context) -> None:
    for offset in range(0, MOST_PUBLIC, MOST):
        page = context.call(endpoint_view.public_names, context.user, limit=MOST, offset=offset)
        own = context.user.username
        context.out("".join(f"{name}\n" if owner == own else f"{owner}#{name}\n" for owner, name in page))
        if len(page) < MOST:
            return


@command("endpoint-search", "[OPTIONS] [TEXT]", Heading.ENDPOINTS,
         option("--scope", metavar="SCOPE", read=choice(*SearchScope), default=SearchScope.ALL,
                about=f"one of {', '.join(SearchScope)}; all, by default, needs a text"),
         option("-l", "--limit", metavar="N", read=number(1, MOST), default=100, about="at most so many; 100"),
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
