"""acl-add, acl-list, acl-remove and endpoint-role-add, -list, -remove: who may do what on an endpoint.

Options name who gets access or a role: a user, a group, or everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from endpoints.error_meanings import meaning
from endpoints.errors import NotSharedError
from endpoints.models import AccessRule, Role
from endpoints.permissions import RoleName
from endpoints.registry import canonical_name
from endpoints.sharing import access_rules, roles
from endpoints.sharing.access_rules import RuleSpec
from endpoints.sharing.principals import GROUP, IDENTITY
from identity.models import User
from identity.provider import identities
from transferapi.rest.transfer import sharing_documents
from transferapi.shell import names, options
from transferapi.shell.command import Heading, answer, command, operands, show
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError, UsageError
from transferapi.shell.options import Arguments, choice, flag, option
from transferapi.shell.output import FIELDS, FORM, Column, Table

PERSONS = (
    option("--identityusername", metavar="USER", about="a user, by name"),
    option("--identityid", metavar="UUID", about="a user, by id"),
    option("--groupid", metavar="UUID", about="the members of a group"),
)
EVERYBODY = (
    flag("--all", about="all users who are signed in"),
    flag("--anonymous", about="everybody"),
    option("--email", metavar="ADDRESS", about="a user whose name is an address; the user gets a mail"),
)
_TYPES = {"all": "all_authenticated_users", "anonymous": "anonymous", "identityid": IDENTITY, "groupid": GROUP}


def chosen(arguments: Arguments) -> tuple[str, str | None]:
    """The type and the id of the one principal that the line names. Call it by `Context.call`.

    Raises UsageError, ShellError.
    """
    names = [key for key in ("identityusername", "email", *_TYPES) if key in arguments.given]
    if len(names) != 1:
        reason = "name one principal only" if names else "a principal is missing"
        raise UsageError(f"{reason}: --identityusername USER, --identityid UUID, --groupid UUID or another such option")
    [key] = names
    value = arguments[key]
    if key in _TYPES:
        return _TYPES[key], value if isinstance(value, str) else None
    return IDENTITY, _by_name(value)


def _by_name(name: str) -> str:
    """The id of the identity, so that a rule on a linked one ends when it is unlinked.

    Users do not learn whose a mail address is: only a name that is an address is looked up.
    """
    found = identities.with_usernames([name])
    if not found:
        way = "; give the name of a user by --identityusername, or an id by --identityid" if "@" in name else ""
        raise ShellError(f"No identity has the name '{name}'{way}", "ClientError.NotFound")
    return str(found[0].id)


P = ParamSpec("P")
T = TypeVar("T")

_RULES = Table[AccessRule](
    Column("ID", lambda row: row.pk),
    Column("Principal Type", lambda row: row.principal_type),
    Column("Principal", lambda row: row.principal),
    Column("Path", lambda row: row.path),
    Column("Permissions", lambda row: row.permissions),
    Column("Create Time", lambda row: row.created_at),
    Column("Expiration Date", lambda row: row.expires_at),
    Column("Notify Email", lambda row: row.notify_email),
    document=sharing_documents.ACCESS.document,
)
_ROLES = Table[Role](
    Column("ID", lambda row: row.pk),
    Column("Principal Type", lambda row: row.principal_type),
    Column("Principal", lambda row: row.principal),
    Column("Role", lambda row: str(row.role)),
    document=sharing_documents.ROLE.document,
)


def _on_share(context: Context, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`Context.call`; an endpoint that is not shared is refused with the way to share a folder of it."""
    try:
        return context.call(function, *args, **kwargs)
    except NotSharedError as error:
        name = canonical_name(error.endpoint)
        way = f"share a folder of it by: endpoint-add NAME --sharing {name}/FOLDER/"
        raise ShellError(
            f"{name} is no shared endpoint, so it has no access rules; {way}", meaning(error, "")[1]
        ) from None


@command("acl-add", "[OPTIONS] ENDPOINT/PATH/", Heading.ENDPOINTS,
         option("--perm", metavar="r|rw", read=choice(*access_rules.PERMISSIONS), about="read, or read and write"),
         *PERSONS, *EVERYBODY,
         option("--notify-email", metavar="ADDRESS", default="", about="inform this address, if it is the user's"),
         option("--notify-message", "--message", key="notify_message", metavar="TEXT", default="",
                about="a text for the mail"),
         option("--expires", metavar="WHEN", read=options.from_now, about=f"when the rule ends: {options.FORMS}"), FORM,
         summary="Give access to a folder of a shared endpoint")  # fmt: skip
def acl_add(context: Context, arguments: Arguments) -> None:
    """Adds an access rule: the principal may read, or read and write, below the path. `%XX` in the path stands for an
    octet. Prints a line whose last word is the id of the rule. Rules are for shared endpoints; for another endpoint,
    share a folder of it first, by `endpoint-add --sharing`.
    """
    [text] = operands(arguments, 1)
    if arguments["perm"] is None:
        raise UsageError("--perm is missing: r or rw")
    rule = _on_share(context, _add_rule, context.user, text, arguments)
    message = "Access rule created successfully"
    answer(context, arguments, "access_create_result", "Created", message, f"Rule ID: {rule.pk}\n", access_id=rule.pk)


def _add_rule(user: User, text: str, arguments: Arguments) -> AccessRule:
    place = names.location(user, text, decode=True, bare=True)
    kind, principal = chosen(arguments)
    email = arguments["notify_email"] or arguments["email"] or ""
    spec = RuleSpec(
        principal_type=kind,
        principal=principal,
        path=place.path,
        permissions=arguments["perm"],
        expires_at=arguments["expires"],
        notify_email=email,
        notify_message=arguments["notify_message"],
    )
    return access_rules.create(user, place.endpoint, spec)


@command("acl-list", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, FORM, FIELDS,
         summary="List the access rules of a shared endpoint")  # fmt: skip
def acl_list(context: Context, arguments: Arguments) -> None:
    """Prints the access rules as a JSON array, in order of creation: id, principal_type, principal, path, permissions
    and more. With -O text, -O csv, -O kv or -f, the rules are records.
    """
    [ref] = operands(arguments, 1)
    if not arguments.given & {"form", "fields"}:
        arguments.values["form"] = "json"
    _RULES.select(arguments)
    _, rows = _on_share(context, access_rules.of_share, context.user, ref)
    _RULES.show(context, arguments, rows)


@command("acl-remove", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS,
         option("--id", metavar="UUID", about="the id of the rule"), FORM,
         summary="Take access back")  # fmt: skip
def acl_remove(context: Context, arguments: Arguments) -> None:
    """Removes an access rule. A transfer that relies on it stops at its next file. Nothing is printed."""
    ref, rule = _with_id(arguments)
    _on_share(context, access_rules.delete, context.user, ref, rule)
    answer(context, arguments, "result", "Deleted", "Access rule deleted successfully", id=rule)


def _with_id(arguments: Arguments) -> tuple[str, str]:
    """The endpoint, and the id: by --id, or the second operand."""
    if arguments["id"] is not None:
        return operands(arguments, 1)[0], arguments["id"]
    ref, found = operands(arguments, 2)
    return ref, found


@command("endpoint-role-add", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS,
         option("--role", metavar="ROLE", read=choice(*RoleName), about=f"one of {', '.join(RoleName)}"),
         *PERSONS, FORM, summary="Give a user or a group a role on an endpoint")  # fmt: skip
def role_add(context: Context, arguments: Arguments) -> None:
    """Gives a role. An administrator may do all that the owner may; an access_manager changes the access rules of a
    shared endpoint; an activity_manager sees and ends the tasks of all users; an activity_monitor sees them. Prints a
    line whose last word is the id of the role.
    """
    [ref] = operands(arguments, 1)
    if arguments["role"] is None:
        raise UsageError(f"--role is missing: one of {', '.join(RoleName)}")
    row = context.call(_add_role, context.user, ref, arguments)
    if arguments["form"] == "json":
        show(context, sharing_documents.ROLE.document(row))
        return
    context.out(f"Role ID: {row.pk}\n")


def _add_role(user: User, ref: str, arguments: Arguments) -> Role:
    kind, principal = chosen(arguments)
    return roles.create(user, ref, kind, principal or "", arguments["role"])


@command("endpoint-role-list", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS, FORM, FIELDS,
         summary="List the roles of an endpoint")  # fmt: skip
def role_list(context: Context, arguments: Arguments) -> None:
    """Shows each role as a record, the owner's first. Users who may not give roles see only their own."""
    [ref] = operands(arguments, 1)
    _ROLES.select(arguments)
    _ROLES.show(context, arguments, context.call(roles.of_endpoint, context.user, ref))


@command("endpoint-role-remove", "[OPTIONS] ENDPOINT", Heading.ENDPOINTS,
         option("--id", metavar="UUID", about="the id of the role"), FORM,
         summary="Take a role back")  # fmt: skip
def role_remove(context: Context, arguments: Arguments) -> None:
    """Removes a role, or gives up one of your own. Nothing is printed."""
    ref, role = _with_id(arguments)
    context.call(roles.delete, context.user, ref, role)
    answer(context, arguments, "result", "Deleted", "Role deleted successfully", id=role)
