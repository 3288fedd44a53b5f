"""endpoint-add, endpoint-modify, endpoint-rename, endpoint-remove.

Options set the fields of the endpoint. `endpoints.fields` checks the values.
"""

from __future__ import annotations

from typing import Any

from endpoints import registry
from endpoints.connect import setup, setup_keys
from endpoints.errors import EndpointExistsError, EndpointNotFoundError
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.registry import Deleted, canonical_name
from endpoints.sharing import shares
from identity.models import User
from identity.user_names import canonical
from transferapi.rest.transfer import endpoint_documents
from transferapi.shell import names
from transferapi.shell.answers import answer
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError, UsageError
from transferapi.shell.options import Arguments, Option, flag, number, on_off, option
from transferapi.shell.output import FORM, line

from . import servers


def _text(name: str, about: str, *, metavar: str = "TEXT") -> Option:
    return option(f"--{name}", metavar=metavar, about=about)


def _switch(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="on|off", about=about, read=on_off)


def _number(name: str, about: str) -> Option:
    return option(f"--{name}", metavar="N", about=about, read=number(1, 10**6))


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
    _switch("force-encryption", "every transfer from or to it is encrypted"),
    _switch("force-verify", "every transfer from or to it compares checksums"),
    _switch("disable-verify", "no transfer from or to it compares checksums"),
    _switch("allow-guest-collections", "its users may share folders of it"),
)


def given(arguments: Arguments) -> dict[str, Any]:
    """The fields of the document that the line sets."""
    return {key: arguments[key] for key in dict.fromkeys(one.key for one in FIELD_OPTIONS) if key in arguments.given}


_NOT_SUPPORTED = "ClientError.BadRequest.NotSupported"
#: Options of the historical shell for kinds of endpoints that do not exist here, with the refusal.
_REFUSED = {
    "s3": "This service has no endpoints on S3 storage",
    "managed_endpoint": "This service has no subscriptions: all endpoints have all features",
    "subscription": "This service has no subscriptions: all endpoints have all features",
}


_SUMMARY = "Create an endpoint, or add a server to one"
_OPTIONS = (
    servers.SERVERS,
    servers.SUBJECT,
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
            raise ShellError(reason, _NOT_SUPPORTED)
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
            registry.create(user, fields, [servers.spec_of(text, subject) for text in texts])
        )
    if not texts or len(fields) > 1:
        raise EndpointExistsError(canonical_name(found))
    servers.add(user, str(found.pk), texts, subject)
    return endpoint_documents.created(found)


def _add_personal(user: User, found: Endpoint | None, fields: dict[str, Any], servers: list[str]) -> dict[str, Any]:
    if servers:
        raise ShellError("--gc and -p: the program on your computer takes the place of a server")
    if found is not None and len(fields) > 1:
        raise EndpointExistsError(canonical_name(found))
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
        context.call(servers.remove, context.user, ref, arguments["server"])
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
