"""endpoint-add, endpoint-modify, endpoint-rename, endpoint-remove, and server-add, server-list, server-modify,
server-remove.

Options set the fields of the endpoint. `endpoints.fields` checks the values.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from endpoints import bandwidth, endpoint_view, registry
from endpoints.connect import setup, setup_keys
from endpoints.errors import ENDPOINT_EXISTS, EndpointNotFoundError
from endpoints.fields import host_and_port
from endpoints.models import Endpoint, Server
from endpoints.permissions import Permission
from endpoints.program_removal import remove_programs
from endpoints.protocols import PROTOCOLS, USUAL, listed, of_scheme
from endpoints.registry import Deleted, ServerSpec, canonical_name, server_spec, server_uri
from endpoints.sharing import shares
from identity.error_categories import NOT_SUPPORTED, InvalidFieldError, RefusedError
from identity.models import User
from identity.user_names import canonical
from transferapi.rest.transfer import endpoint_documents
from transferapi.shell import names
from transferapi.shell.command import Heading, answer, command, operands, show
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError, UsageError
from transferapi.shell.options import Arguments, Option, flag, number, on_off, option
from transferapi.shell.output import FIELDS, FORM, Column, Table, line

#: Servers that one line names.
MOST = registry.MAX_SERVERS
SUBJECT = option("-s", "--subject", metavar="DN", about="subject of the server's certificate, if not its host name")
#: `-p SERVER`, as often as there are servers.
SERVERS = option(
    "-p",
    "--gridftp-server",
    key="servers",
    metavar="SERVER",
    many=True,
    about=f"HOST, HOST:PORT or SCHEME://HOST:PORT/, with {listed(PROTOCOLS)}; several are allowed",
)
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


def server_spec_of(text: str, subject: str = "", scheme: str = USUAL) -> ServerSpec:
    """HOST, HOST:PORT, or SCHEME://HOST:PORT/. scheme: where the text has none. Raises InvalidFieldError."""
    if "://" in text:
        return ServerSpec.parse(text, subject)
    try:
        host, port = host_and_port(text.rstrip("/"), of_scheme(scheme).port)
    except ValueError:
        reason = f"'{text}' is no server; write HOST, HOST:PORT or gsiftp://HOST:PORT/"
        raise InvalidFieldError("server", reason) from None
    return ServerSpec(host, port, scheme, subject)


def add_servers(user: User, ref: str, texts: Sequence[str], subject: str) -> list[Server]:
    """Add all servers, or none."""
    usual = endpoint_view.usual_scheme(registry.resolve(user, ref, Permission.MANAGE))
    with transaction.atomic():
        return [registry.add_server(user, ref, server_spec_of(text, subject, usual)) for text in texts]


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
    an endpoint have the same scheme. Prints the id of each. The host key of an ssh server is read now, if -s does not
    give its fingerprint: compare it by server-list.
    """
    ref, *texts = operands(arguments, 1, 1 + MOST)
    texts += arguments["servers"]
    if not texts:
        raise UsageError("a server is missing: HOST, HOST:PORT or gsiftp://HOST:PORT/")
    rows = context.call(add_servers, context.user, ref, texts, arguments["subject"] or "")
    if arguments["form"] == "json" and len(rows) > 1:
        show(context, [endpoint_documents.SERVER.document(row) for row in rows])
        return
    text = "".join(f"Server ID: {row.pk}\n{_unconfirmed(ref, row)}" for row in rows)
    answer(
        context, arguments, "endpoint_server_add_result", "Created", "Server added successfully", text, id=rows[0].pk
    )


def is_pinned(row: Server) -> bool:
    return of_scheme(row.scheme).pinned and bool(row.subject)


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
    spec = server_spec_of(address or before.uri, before.subject if subject is None else subject, before.scheme)
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
    context.call(remove_server, context.user, ref, text)
    answer(context, arguments, "result", "Deleted", "Server deleted successfully")


def remove_server(user: User, ref: str, text: str) -> None:
    registry.remove_server(user, ref, find(registry.resolve(user, ref, Permission.MANAGE), text).pk)


def _text(name: str, about: str, *, metavar: str = "TEXT") -> Option:
    return option(f"--{name}", metavar=metavar, about=about)


def _switch(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="on|off", about=about, read=on_off)


def _number(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="N", about=about, read=number(1, 10**6))


def _bandwidth_limit(text: str) -> dict[str, Any] | None:
    """A row of the endpoint's limits; None where the text is `off`. For `Option.read`; raises ValueError."""
    try:
        return None if text.strip() == "off" else bandwidth.row_of_text("bandwidth_limits", text)
    except InvalidFieldError as error:
        raise ValueError(error.message) from None


FIELD_OPTIONS = (
    option("-n", "--display-name", metavar="NAME", about="the name that people read"),
    flag("--public", about="all users see it, and may use it within the limits of its servers", default=None),
    flag("--private", key="public", value=False, about="only you and those with a role see it", default=None),
    _text("description", "what it is for"),
    _text("organization", "the organization that runs it"),
    _text("department", "the department that runs it"),
    _text("keywords", "words by which it is found"),
    _text("contact-email", "the address of the people who run it", metavar="ADDRESS"),
    _text("contact-info", "how else they are reached"),
    _text("info-link", "a page about it", metavar="URL"),
    _text("default-directory", "where a listing without a path begins", metavar="PATH"),
    _text("myproxy-server", "the MyProxy server that its users get credentials from", metavar="HOST[:PORT]"),
    _text("myproxy-dn", "subject of that server's certificate, if not its host name", metavar="DN"),
    _text("oauth-server", "the OAuth server that its users get credentials from", metavar="URL"),
    _text("jump-host", "of ssh servers: the endpoint through whose server they are reached", metavar="ENDPOINT"),
    _text("data-ports", "of ssh servers: the ports at which our server awaits data", metavar="LOW-HIGH"),
    _text("network-use", "normal, minimal, aggressive or custom", metavar="WORD"),
    _number("max-concurrency", "with custom: the most sessions of one task"),
    _number("preferred-concurrency", "with custom: the sessions with which a task begins"),
    _number("max-parallelism", "with custom: the most streams of one session"),
    _number("preferred-parallelism", "with custom: the streams with which a session begins"),
    option(
        "--bandwidth-limit",
        key="bandwidth_limits",
        metavar="LIMIT",
        many=True,
        read=_bandwidth_limit,
        about=f"limits all its transfers together: {bandwidth.FORM} with octets a second; several are allowed, and"
        " take the place of those that were there; off: none",
    ),
    _switch("force-encryption", "every transfer from or to it is encrypted"),
    _switch("force-verify", "every transfer from or to it compares checksums"),
    _switch("disable-verify", "no transfer from or to it compares checksums"),
    _switch("allow-guest-collections", "its users may share folders of it"),
)


def given(arguments: Arguments) -> dict[str, Any]:
    """The fields of the document that the line sets."""
    found = {key: arguments[key] for key in dict.fromkeys(one.key for one in FIELD_OPTIONS) if key in arguments.given}
    if limits := found.get("bandwidth_limits"):
        found["bandwidth_limits"] = [row for row in limits if row is not None]
    return found


#: Options of the historical shell for kinds of endpoints that do not exist here, with the refusal.
_REFUSED = {
    "s3": "This service has no endpoints on S3 storage",
    "managed_endpoint": "This service has no subscriptions: all endpoints have all features",
    "subscription": "This service has no subscriptions: all endpoints have all features",
}


_SUMMARY = "Create an endpoint, or add a server to one"
_OPTIONS = (
    SERVERS,
    SUBJECT,
    option("--sharing", metavar="ENDPOINT/DIR", about="share this folder of an endpoint"),
    flag("--gc", about="for your own computer; the setup key is the last line"),
    flag("--s3", about="an endpoint on S3 storage; this service has none"),
    flag("--managed-endpoint", about="a managed endpoint; this service has no subscriptions"),
    option("--subscription", metavar="UUID", about="of a subscription; this service has none"),
    *FIELD_OPTIONS,
    FORM,
)


@command("endpoint-create", "[OPTIONS] [NAME]", Heading.ENDPOINTS, *_OPTIONS, summary=_SUMMARY, hidden=True)
@command("endpoint-add", "[OPTIONS] [NAME]", Heading.ENDPOINTS, *_OPTIONS, summary=_SUMMARY)
def endpoint_add(context: Context, arguments: Arguments) -> None:
    """Creates an endpoint of yours: `endpoint-add NAME -p HOST`. Where you have an endpoint of this name already, the
    servers are added to it. Nothing is printed. With -n and a display name, the NAME may be left out; the endpoint is
    then named by its id, and `Endpoint ID: ` with the id is printed.

    With --gc, a program on your computer serves the endpoint (docs/connect.md): the last line is its setup key, which
    is good for one computer and one day. Where you have such an endpoint of this name, it gets a new key.

    With --sharing, the new endpoint is a shared endpoint: a folder of another endpoint. Give others access to it by
    `acl-add`.
    """
    for key, reason in _REFUSED.items():
        if key in arguments.given:
            raise ShellError(reason, NOT_SUPPORTED)
    name = next(iter(operands(arguments, 0, 1)), None)
    if name is None and arguments["display_name"] is None:
        raise UsageError("a name is missing: NAME, or -n with a display name")
    made = context.call(_add, context.user, name, arguments)
    shown = name is None or arguments["display_name"] is not None
    text = f"Endpoint ID: {made['id']}\n" if shown else ""
    text += f"{made['globus_connect_setup_key']}\n" if made["globus_connect_setup_key"] else ""
    answer(context, arguments, "endpoint_create_result", "Created", "Endpoint created successfully", text, **made)


def _add(user: User, name: str | None, arguments: Arguments) -> dict[str, Any]:
    fields = given(arguments)
    texts, subject = arguments["servers"], arguments["subject"] or ""
    if name is not None:
        fields["name"] = _own(user, name)
    if arguments["sharing"] is not None:
        if texts:
            raise UsageError("--sharing and -p: a shared endpoint has no servers of its own")
        place = names.location(user, arguments["sharing"], decode=True)
        return endpoint_documents.created(shares.create(user, place.endpoint, place.path, fields))
    found = _known(user, fields.get("name"))
    if "gc" in arguments.given:
        return _add_personal(user, found, fields, texts)
    if found is None:
        return endpoint_documents.created(
            registry.create(user, fields, [server_spec_of(text, subject) for text in texts])
        )
    if not texts or len(fields) > 1:
        raise RefusedError(ENDPOINT_EXISTS, name=canonical_name(found))
    add_servers(user, str(found.pk), texts, subject)
    return endpoint_documents.created(found)


def _add_personal(user: User, found: Endpoint | None, fields: dict[str, Any], servers: list[str]) -> dict[str, Any]:
    if servers:
        raise ShellError("--gc and -p: the program on your computer takes the place of a server")
    if found is not None and len(fields) > 1:
        raise RefusedError(ENDPOINT_EXISTS, name=canonical_name(found))
    if found is not None:
        return endpoint_documents.created(found, setup_keys.new_key(user, str(found.pk)))
    return endpoint_documents.created(*setup_keys.create_endpoint(user, {**fields, "is_globus_connect": True}))


def _known(user: User, name: str | None) -> Endpoint | None:
    try:
        return None if name is None else registry.resolve(user, name, Permission.MANAGE)
    except EndpointNotFoundError:
        return None


def _own(user: User, name: str) -> str:
    """The name without one's own user name before it. Raises ShellError."""
    owner, separator, short = name.rpartition("#")
    if separator and canonical(owner) != user.username:
        raise ShellError(f"'{name}' would be an endpoint of {owner}; yours are {user.username}#{short}")
    return short


@command("endpoint-modify", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, *FIELD_OPTIONS, FORM,
         summary="Change the fields of an endpoint")  # fmt: skip
def endpoint_modify(context: Context, arguments: Arguments) -> None:
    """Changes the given fields of an endpoint; an empty text ('') removes one. With --public or --private, a line says
    so; otherwise nothing is printed. When an endpoint becomes private, the credentials of other users for it are
    deleted.
    """
    [ref] = operands(arguments, 1)
    fields = given(arguments)
    if not fields:
        raise UsageError("nothing is to be changed; give an option, such as --public")
    found = context.call(registry.update, context.user, ref, fields)
    text = f"Set '{line(ref)}' to {'public' if fields['public'] else 'private'}\n" if "public" in fields else ""
    answer(context, arguments, "result", "Updated", "Endpoint updated successfully", text, id=str(found.pk))


@command("endpoint-rename", "[OPTIONS] OLD NEW", Heading.ENDPOINTS, FORM, summary="Give an endpoint another name")
def endpoint_rename(context: Context, arguments: Arguments) -> None:
    """Changes the name of an endpoint: the part behind the # of `user#name`. Its id stays. Nothing is printed."""
    old, new = operands(arguments, 2)
    found = context.call(_rename, context.user, old, new)
    answer(context, arguments, "result", "Updated", "Endpoint updated successfully", id=str(found.pk))


def _rename(user: User, old: str, new: str) -> Endpoint:
    owner = registry.resolve(user, old, Permission.MANAGE).owner
    return registry.update(user, old, {"name": _own(owner, new)})


@command("endpoint-remove", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS,
         option("-p", "--gridftp-server", key="server", metavar="SERVER", about="remove this server only"),
         flag("--gc", about="only refuse the computer that serves it, from now on"), FORM,
         summary="Delete an endpoint, or remove a server from it")  # fmt: skip
def endpoint_remove(context: Context, arguments: Arguments) -> None:
    """Deletes an endpoint, its shared endpoints, and all credentials for it; files stay. With -p, only a server is
    removed from the endpoint; with --gc, only the computer that serves it is refused, until a new setup key is used. A
    line gives the number of shared endpoints that were deleted with it; otherwise nothing is printed.
    """
    [ref] = operands(arguments, 1)
    if arguments["server"] is not None:
        context.call(remove_server, context.user, ref, arguments["server"])
        answer(context, arguments, "result", "Deleted", "Server deleted successfully")
        return
    if "gc" in arguments.given:
        refused: Endpoint = context.call(setup.revoke, context.user, ref)
        message = "The computer is refused from now on"
        answer(context, arguments, "result", "Deleted", message, f"{message}\n", id=str(refused.pk))
        return
    gone: Deleted = context.call(registry.delete, context.user, ref)
    more = f", with {gone.shares} shared endpoint{'s' * (gone.shares > 1)} of it" if gone.shares else ""
    message = f"Endpoint deleted successfully{more}"
    answer(context, arguments, "result", "Deleted", message, f"{message}\n" * bool(more), id=str(gone.endpoint.pk))
