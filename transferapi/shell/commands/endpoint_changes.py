"""endpoint-add, endpoint-modify, endpoint-rename, endpoint-remove."""

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
from transferapi.shell.options import Arguments, flag, option
from transferapi.shell.output import FORM, line
from transferapi.shell.records.endpoint_fields import FIELD_OPTIONS, given

from . import servers

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
