"""Options of transfers and deletes, and their submission, for `transfer`, `scp`, `delete`, `rm` and `retry`."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ParamSpec

from transferapi.rest.transfer import submission_documents
from transferapi.tasks import submission
from transferapi.tasks.errors import NoCredentialError
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.submission import DeleteRequest, TransferRequest

from . import output, times, words
from .answers import show
from .command import COMMANDS
from .context import Context
from .errors import ShellError
from .operation_errors import not_activated
from .options import Arguments, Option, flag, option

P = ParamSpec("P")
#: Characters of the operands in the field `Command` of a task.
MAX_OPERANDS = 800
DELEGATION = "accepted for old scripts: the credentials that are stored in the service are used"


def number(least: int, most: int) -> Callable[[str], int]:
    """For `Option.read`. Raises ShellError, with the words of the historical shell."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise ShellError(f"Invalid Number '{text}'")
        if not least <= int(text) <= most:
            raise ShellError(f"Invalid Number '{text}': expected a number from {least} to {most}")
        return int(text)

    return read


def task_id(text: str) -> uuid.UUID:
    """For `Option.read`. Raises ValueError."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a task id; 'transfer --generate-id' prints a new one") from None


DEADLINE: Option = option(
    "-d", "--deadline", metavar="TIME", read=times.from_now, about=f"end the task then: {times.FORMS}"
)
LABEL: Option = option("--label", metavar="TEXT", about="a label of up to 128 printable characters")
TASK_ID: Option = option("--taskid", metavar="ID", read=task_id, key="task_id", about="the id of the new task, from"
                         " --generate-id: the same command again makes no second task")  # fmt: skip
DELEGATE: Option = flag("-g", key="delegate", about=DELEGATION)
RECURSIVE: Option = flag("-r", "--recursive", after=True, about="folders too, with all that is in them")

#: Option of the shell -> option of a submission.
_NAMES = {
    "delete": "delete_destination_extra",
    "confirm_above": "confirm_deletion_above",
    "encrypt": "encrypt_data",
    "verify": "verify_checksum",
    "preserve_mtime": "preserve_timestamp",
    "perf_p": "perf_p",
    "perf_cc": "perf_cc",
    "perf_pp": "perf_pp",
    "perf_udt": "perf_udt",
}
#: The options of the data movement, for `transfer` and `scp`.
MOVEMENT: tuple[Option, ...] = (
    RECURSIVE,
    option("-s", "--sync", "--sync-level", metavar="LEVEL", key="sync", read=number(0, 3), after=True, about="move a"
           " file only if it is missing (0), has another size (1), is older there (2), has another checksum (3)"),
    flag("--delete", about="in the end delete what only the destination folder has"),
    option("--confirm-above", metavar="PERCENT", read=number(0, 100), about="with --delete: wait for confirm-deletion"
           " or refuse-deletion where more than so much of the destination would be deleted"),
    flag("--encrypt", about="encrypt the data on their way"),
    flag("--verify-checksum", key="verify", default=None, about="compare the checksums of both sides"),
    flag("--no-verify-checksum", key="verify", value=False, default=None, about="do not compare checksums"),
    flag("--preserve-mtime", about="files keep their modification times"),
    DEADLINE,
    LABEL,
    DELEGATE,
    option("--perf-p", metavar="N", read=number(1, 64), about="streams for each file"),
    option("--perf-cc", metavar="N", read=number(1, 64), about="sessions side by side"),
    option("--perf-pp", metavar="N", read=number(1, 100), about="files under way in each session"),
    flag("--perf-udt", about="over UDT where both servers allow it"),
)  # fmt: skip


def movement(arguments: Arguments, sync: int | None) -> dict[str, object]:
    """The options of the submission, by the names of REST."""
    given = {name: arguments[key] for key, name in _NAMES.items() if key in arguments.given}
    return given if sync is None else {**given, "sync_level": sync}


def command_text(name: str, arguments: Arguments, operands: str) -> str:
    """The field `Command` of the task: the command with its options, then `operands`."""
    parts = [name]
    for one in COMMANDS[name].options:
        if one.key not in arguments.given or one.key in ("task_id", "form", "label"):
            continue
        value = arguments[one.key]
        if not one.metavar:
            parts += [one.names[0]] if value == one.value else []
        elif one.names[0].startswith("--"):
            parts.append(f"{one.names[0]}={output.value_text(value)}")
        else:
            parts.append(f"{one.names[0]} {words.quote(output.value_text(value))}")
    return " ".join([*parts, operands[:MAX_OPERANDS]])


def common(name: str, arguments: Arguments, operands: str) -> dict[str, Any]:
    """The fields that requests for transfers and for deletes have in common. operands: as `command_text` takes them."""
    return {
        "submission_id": arguments["task_id"] or uuid.uuid4(),
        "task_id": arguments["task_id"],
        "label": arguments["label"],
        "deadline": arguments["deadline"],
        "command": command_text(name, arguments, operands),
    }


def quoted(arguments: Arguments) -> str:
    """The operands as they can be written again."""
    return " ".join(words.quote(word.text) for word in arguments.operands)


def submit(context: Context, request: TransferRequest | DeleteRequest) -> tuple[Task, bool]:
    """The task, and whether it is new. Raises the errors of the services."""
    if isinstance(request, TransferRequest):
        return submitted(context, submission.submit_transfer, context.user, request)
    return submitted(context, submission.submit_delete, context.user, request)


def submitted(
    context: Context, function: Callable[P, tuple[Task, bool]], *args: P.args, **kwargs: P.kwargs
) -> tuple[Task, bool]:
    """Call a service that submits; where an endpoint is not activated, the error names the way."""

    def attempt() -> tuple[Task, bool]:
        try:
            return function(*args, **kwargs)
        except NoCredentialError as error:
            raise not_activated(context.user, error) from None

    return context.call(attempt)


def accepted(context: Context, arguments: Arguments, task: Task, *, made: bool, what: str = "") -> None:
    """Write `Task ID: ...`, or the document of REST. what: was accepted; "": the type of the task."""
    warning = context.call(overlaps.warning, context.user, task) if made else None
    if arguments["form"] == "json":
        show(context, submission_documents.accepted(what or task.type.lower(), task, made=made, warning=warning))
        return
    if warning:
        context.err(f"Warning: {warning}\n")
    context.out(f"Task ID: {task.pk}\n")
