"""server-add, server-list, server-modify, server-remove: the servers of an endpoint."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction

from endpoints import endpoint_view, registry
from endpoints.errors import EndpointInvalidError
from endpoints.fields import host_and_port
from endpoints.models import Endpoint, Server
from endpoints.permissions import Permission
from endpoints.program_removal import remove_programs
from endpoints.registry import DEFAULT_PORTS, ServerSpec, server_spec, server_uri
from endpoints.server_spec import PINNED_SCHEMES
from identity.models import User
from transferapi.rest.transfer import endpoint_documents
from transferapi.shell.answers import answer, show
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError, UsageError
from transferapi.shell.options import Arguments, option
from transferapi.shell.output import FIELDS, FORM, Column, Table

#: Servers that one line names.
MOST = registry.MAX_SERVERS
SUBJECT = option("-s", "--subject", metavar="DN", about="subject of the server's certificate, if not its host name")
#: `-p SERVER`, as often as there are servers.
SERVERS = option("-p", "--gridftp-server", key="servers", metavar="SERVER", many=True,
                 about="HOST, HOST:PORT or gsiftp://HOST:PORT/; may be given several times")  # fmt: skip
_TABLE = Table[Server](
    Column("ID", lambda row: row.pk),
    Column("URI", server_uri),
    Column("Hostname", lambda row: row.hostname),
    Column("Port", lambda row: row.port),
    Column("Scheme", lambda row: row.scheme),
    Column("Subject", lambda row: row.subject),
    Column("Shown Host Key", lambda row: row.shown_host_key),
    Column("Host Key Confirmed", lambda row: row.host_key_confirmed if is_pinned(row) else ""),
    document=endpoint_documents.SERVER.document,
)


def spec_of(text: str, subject: str = "", scheme: str = "gsiftp") -> ServerSpec:
    """HOST, HOST:PORT, or SCHEME://HOST:PORT/. scheme: where the text has none. Raises EndpointInvalidError."""
    if "://" in text:
        return ServerSpec.parse(text, subject)
    try:
        host, port = host_and_port(text.rstrip("/"), DEFAULT_PORTS[scheme])
    except ValueError:
        reason = f"'{text}' is no server; write HOST, HOST:PORT or gsiftp://HOST:PORT/"
        raise EndpointInvalidError("server", reason) from None
    return ServerSpec(host, port, scheme, subject)


def add(user: User, ref: str, texts: Sequence[str], subject: str) -> list[Server]:
    """Add all servers, or none."""
    usual = endpoint_view.usual_scheme(registry.resolve(user, ref, Permission.MANAGE))
    with transaction.atomic():
        return [registry.add_server(user, ref, spec_of(text, subject, usual)) for text in texts]


def find(endpoint: Endpoint, text: str) -> Server:
    """The server that `text` names: its ID, its URI, HOST:PORT, or HOST where only one has it. Raises ShellError."""
    rows = registry.servers(endpoint)
    wanted = text.rstrip("/").lower()
    fitting = [row for row in rows if wanted in _names(row)]
    if len(fitting) == 1:
        return fitting[0]
    name = registry.canonical_name(endpoint)
    if fitting:
        uris = ", ".join(map(server_uri, fitting))
        raise ShellError(f"'{text}' names several servers of {name}: {uris}")
    known = ", ".join(map(server_uri, rows)) or "none"
    raise ShellError(f"{name} has no server '{text}'; its servers are {known}", "ClientError.NotFound")


def _names(row: Server) -> tuple[str, ...]:
    uri = server_uri(row).lower()
    return str(row.pk), uri, uri.partition("://")[2], row.hostname.lower()


@command("server-add", "[OPTIONS] ENDPOINT SERVER [SERVER ...]", Heading.ENDPOINTS, SERVERS, SUBJECT, FORM,
         summary="Add servers to an endpoint")  # fmt: skip
def server_add(context: Context, arguments: Arguments) -> None:
    """Adds servers to an endpoint of yours: HOST, HOST:PORT, or an address such as gsiftp://HOST:PORT/. All servers of
    an endpoint have the same scheme: gsiftp, ftp, ftpes, sshftp, ssh or sftp. Prints the id of each. The host key of an
    ssh server is read now, if -s does not give its fingerprint: compare it by server-list.
    """
    ref, *texts = operands(arguments, 1, 1 + MOST)
    texts += arguments["servers"]
    if not texts:
        raise UsageError("a server is missing: HOST, HOST:PORT or gsiftp://HOST:PORT/")
    rows = context.call(add, context.user, ref, texts, arguments["subject"] or "")
    if arguments["form"] == "json" and len(rows) > 1:
        show(context, [endpoint_documents.SERVER.document(row) for row in rows])
        return
    text = "".join(f"Server ID: {row.pk}\n{_unconfirmed(ref, row)}" for row in rows)
    answer(
        context, arguments, "endpoint_server_add_result", "Created", "Server added successfully", text, id=rows[0].pk
    )


def is_pinned(row: Server) -> bool:
    return row.scheme in PINNED_SCHEMES and bool(row.subject)


def _unconfirmed(ref: str, row: Server) -> str:
    if row.host_key_confirmed or not is_pinned(row):
        return ""
    confirm = shlex.join(["server-modify", ref, str(row.pk), "-s", row.subject])
    return f"Host key, which nobody has confirmed: {row.subject}\nCompare it on the host, then: {confirm}\n"


@command("server-list", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, FORM, FIELDS,
         summary="List the servers of an endpoint")  # fmt: skip
def server_list(context: Context, arguments: Arguments) -> None:
    """Shows each server of an endpoint as a record."""
    [ref] = operands(arguments, 1)
    _TABLE.select(arguments)
    _TABLE.show(context, arguments, context.call(_servers, context.user, ref))


def _servers(user: User, ref: str) -> list[Server]:
    return registry.servers(registry.resolve(user, ref, Permission.VIEW))


@command("server-modify", "[OPTIONS] ENDPOINT SERVER", Heading.ENDPOINTS,
         option("-p", "--gridftp-server", key="address", metavar="SERVER", about="the new address"), SUBJECT, FORM,
         summary="Change the address or the subject of a server")  # fmt: skip
def server_modify(context: Context, arguments: Arguments) -> None:
    """Changes a server of an endpoint. The server is named by its ID, its address, or its host name. An empty subject
    (-s '') means that the certificate has the host name. A changed host key of an ssh server, which server-list shows,
    is accepted by -s SHA256:..., and one that nobody has confirmed yet is confirmed by it.
    """
    ref, text = operands(arguments, 2)
    if arguments["address"] is None and arguments["subject"] is None:
        raise UsageError("nothing is to be changed; give -p or -s")
    number = context.call(_modify, context.user, ref, text, arguments["address"], arguments["subject"])
    answer(context, arguments, "result", "Updated", "Server updated successfully", id=str(number))


def _modify(user: User, ref: str, text: str, address: str | None, subject: str | None) -> int:
    row = find(registry.resolve(user, ref, Permission.MANAGE), text)
    before = server_spec(row)
    spec = spec_of(address or before.uri, before.subject if subject is None else subject, before.scheme)
    # A key that somebody writes is one that somebody has compared.
    spec = replace(spec, confirmed=before.confirmed if subject is None else True)
    registry.update_server(user, ref, row.pk, spec)
    return row.pk


@command("ssh-program-remove", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, FORM,
         summary="Remove the server that this service keeps in your ssh account")  # fmt: skip
def ssh_program_remove(context: Context, arguments: Arguments) -> None:
    """Removes the copy of our server from the cache folder of your account on each server of an ssh endpoint. The next
    login sends it again.
    """
    [ref] = operands(arguments, 1)
    _, gone = context.call(remove_programs, context.user, ref)
    more = "" if gone else "; the cache folder has other files, and stays"
    answer(context, arguments, "result", "Deleted", f"The program was removed from your account{more}")


@command("server-remove", "[OPTIONS] ENDPOINT SERVER", Heading.ENDPOINTS, FORM,
         summary="Remove a server from an endpoint")  # fmt: skip
def server_remove(context: Context, arguments: Arguments) -> None:
    """Removes a server from an endpoint. The server is named by its ID, its address, or its host name."""
    ref, text = operands(arguments, 2)
    context.call(remove, context.user, ref, text)
    answer(context, arguments, "result", "Deleted", "Server deleted successfully")


def remove(user: User, ref: str, text: str) -> None:
    registry.remove_server(user, ref, find(registry.resolve(user, ref, Permission.MANAGE), text).pk)
