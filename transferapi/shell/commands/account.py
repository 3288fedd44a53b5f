"""identity-details, identity-list, profile, history, versions: the user, other users, and the service."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

from identity import ssh_keys
from identity.models import User
from identity.provider import identities, openid
from identity.provider.identities import Identity
from transferapi.rest.auth import account_documents, documents
from transferapi.rest.auth.documents import ShownUser
from transferapi.rest.transfer import VERSION
from transferapi.shell.command import Heading, command, operands, show
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError
from transferapi.shell.options import Arguments, number, on_off, option
from transferapi.shell.output import FIELDS, FORM, Column, Table, field_name, line, value_text
from transferapi.tasks import names, queries
from transferapi.tasks.models import Task
from transferapi.tasks.notify import mail_preferences
from transferapi.tasks.queries import TaskFilter
from transferapi.version import service_version

#: Identities of one line, as of one request; commands of one answer.
MOST, MOST_COMMANDS = 100, 1000


# ---- identities


@command("identity-details", "UUID|USER [...]", Heading.OTHER, FIELDS, FORM,
         summary="Show users by id or name")  # fmt: skip
def identity_details(context: Context, arguments: Arguments) -> None:
    """Prints a user as a JSON object: id, username, name, status and more; for several users, a JSON array. The mail
    address is shown to yourself only. With -O text, -O csv, -O kv or -f, the users are records.
    """
    texts = operands(arguments, 1, MOST)
    if not arguments.given & {"form", "fields"}:
        arguments.values["form"] = "json"
    _IDENTITIES.select(arguments)
    found = context.call(_known, context.user, texts)
    _IDENTITIES.show(context, arguments, found, single=len(texts) == 1)


@command("identity-list", "", Heading.OTHER, FIELDS, FORM, summary="List your identities")
def identity_list(context: Context, arguments: Arguments) -> None:
    """Shows your identities as records, the primary one first: your own, and those of other providers that you have
    linked. The account page links one, and takes it off again.
    """
    operands(arguments, 0)
    _IDENTITIES.select(arguments)
    _IDENTITIES.show(context, arguments, context.call(_own, context.user))


def _own(user: User) -> list[dict[str, Any]]:
    return [documents.IDENTITY.document(ShownUser(one, user)) for one in identities.of(user)]


def _known(user: User, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The documents of REST. Raises ShellError."""
    return [documents.IDENTITY.document(ShownUser(_one(text), user)) for text in texts]


def _one(text: str) -> Identity:
    try:
        found = identities.with_ids([uuid.UUID(text)])
    except ValueError:
        found = identities.with_usernames([text])
    if not found:
        raise ShellError(f"No such identity '{text}'", "ClientError.NotFound")
    return found[0]


def _field(key: str) -> Column[dict[str, Any]]:
    return Column(key, lambda document: document[field_name(key)])


_IDENTITIES = Table[dict[str, Any]](
    *map(_field, ("ID", "Username", "Name", "Email", "Identity Provider", "Status")),
    document=lambda document: document,
)


# ---- the user


@command("profile", "[OPTIONS]", Heading.OTHER,
         option("-n", "--notifications", metavar="on|off", read=on_off, about="turn mails on or off"), FORM,
         summary="Show your profile, or turn mails on or off")  # fmt: skip
def profile(context: Context, arguments: Arguments) -> None:
    """Prints `Key: value` lines: your user name, full name, mail address and identity, whether you get mails, and a
    line for each of your ssh keys. With -n, turns the mails about tasks, credentials and access on or off, and prints
    nothing.
    """
    operands(arguments, 0)
    if arguments["notifications"] is not None:
        context.call(mail_preferences.choose, context.user, enabled=arguments["notifications"])
        if arguments["form"] != "json":
            return
    document, pairs = context.call(_profile, context.user)
    if arguments["form"] == "json":
        show(context, document)
    else:
        _show_pairs(context, arguments, pairs)


def _show_pairs(context: Context, arguments: Arguments, pairs: Sequence[tuple[str, object]]) -> None:
    """`Key: value` without padding, as the historical shell shows a profile."""
    for key, value in pairs:
        text = line(value_text(value))
        forms = {"text": f"{key}: {text}", "kv": f"{field_name(key)}={text}", "csv": text}
        context.out(f"{forms[arguments['form']]}\n")


def _profile(user: User) -> tuple[dict[str, Any], list[tuple[str, object]]]:
    """The document, and the pairs that the other forms show."""
    identity = documents.IDENTITY.document(ShownUser(Identity(user), user))
    mails, keys = mail_preferences.enabled(user), ssh_keys.list_of(user)
    shown_keys = [account_documents.SSH_KEY.document(key) for key in keys]
    return {**identity, "mail_notifications": mails, "ssh_keys": shown_keys}, [
        ("User Name", identity["username"]),
        ("Full Name", openid.name_of(user)),
        ("Email", identity["email"]),
        ("Identity ID", identity["id"]),
        ("Mail Notifications", "on" if mails else "off"),
        *(("SSH Public Key", f"{key.line} {key.label}".strip()) for key in keys),
    ]


# ---- commands that were run


_HISTORY = Table[Task](
    Column("Request Time", lambda task: task.request_time),
    Column("Task ID", lambda task: task.pk),
    Column("Command", lambda task: _command_of(task)),
    document=lambda task: {
        "task_id": str(task.pk),
        "request_time": task.request_time.isoformat(),
        "command": _command_of(task),
    },
)


def _command_of(task: Task) -> str:
    """The command; where another interface has submitted the task, its kind and its name."""
    return task.command or f"{task.type.lower()} ({'label: ' if task.label else ''}{names.of(task)})"


@command("history", "[OPTIONS]", Heading.OTHER,
         option("-n", "--number", metavar="N", read=number(1, MOST_COMMANDS), default=50, about="at most so many; 50"),
         FIELDS, FORM, summary="List the commands that made your last tasks")  # fmt: skip
def history(context: Context, arguments: Arguments) -> None:
    """Lists the commands that made your last tasks, the oldest first, each with its time (UTC) and the id of the task.
    Tasks that you submitted by other interfaces are shown by their kind and name. At the prompt, the key Up shows the
    lines of the session.
    """
    operands(arguments, 0)
    _HISTORY.select(arguments)
    found = context.call(queries.list_tasks, context.user, TaskFilter(), limit=arguments["number"]).rows[::-1]
    context.call(names.read, found)
    if arguments["form"] != "text" or arguments["fields"] is not None:
        _HISTORY.show(context, arguments, found)
        return
    for task in found:
        context.out(f"{value_text(task.request_time)}  {task.pk}  {line(_command_of(task))}\n")


# ---- versions


@cache
def _versions() -> dict[str, str]:
    return {
        "Waybill": service_version(),
        "Transfer API": VERSION,
        "SSH Server": f"paramiko {metadata.version('paramiko')}",
    }


@command("versions", "[OPTIONS]", Heading.OTHER, FORM, summary="Show the versions of the service and its interfaces")
def versions(context: Context, arguments: Arguments) -> None:
    """Shows the version of the service, of the REST API, and of the ssh library. It changes nothing:
    `ssh HOST versions` is a test of the login.
    """
    operands(arguments, 0)
    found = _versions()
    if arguments["form"] == "json":
        show(context, {field_name(key): value for key, value in found.items()})
    else:
        _show_pairs(context, arguments, list(found.items()))
