"""transfer, delete: tasks of one item or of a list on standard input, which run in the background."""

from __future__ import annotations

import uuid
from typing import Any

from endpoints import registry
from endpoints.permissions import Permission
from identity.models import User
from transferapi.shell import submissions, transfer_lists
from transferapi.shell.command import Heading, command, show
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError
from transferapi.shell.options import Arguments, flag
from transferapi.shell.output import FORM
from transferapi.shell.transfer_lists import EndpointSide, ListLine, TransferLines
from transferapi.tasks import submission
from transferapi.tasks.errors import RequestError
from transferapi.tasks.items.spool import Spool, SpooledItems, SpooledPaths
from transferapi.tasks.options import DELETE
from transferapi.tasks.submission import DeleteRequest, TransferRequest

_NO_LINES = (
    "There is nothing to do: give {} as operands, or a list on standard input with one on each line;"
    " type '{} -h' for help"
)


@command("transfer", "[OPTIONS] < FILE_LIST | [OPTIONS] -- SOURCE DESTINATION [-r] [-s LEVEL] | --generate-id",
         Heading.TASKS, *submissions.MOVEMENT, submissions.TASK_ID,
         flag("--generate-id", about="only print a new task id, for --taskid"),
         flag("--dry-run", about="check everything, and show the summary of the task without making it"), FORM,
         summary="Submit a transfer that runs in the background")  # fmt: skip
def transfer(context: Context, arguments: Arguments) -> None:
    """Submits a transfer and prints one line, `Task ID: ID`. The transfer runs in the background: `status ID` shows it,
    and `wait ID` waits for its end.

    SOURCE and DESTINATION are ENDPOINT/PATH (or ENDPOINT:PATH). ENDPOINT is `user#name`, the name of one of your own
    endpoints, a UUID or `^bookmark`. A path is absolute, or below your home as `/~/PATH`. `%XX` stands for an octet of
    the path. A path with blanks is quoted: `'go#ep1/my file'`.

    With operands, one item is transferred, and standard input is not read. Without operands, each line of standard
    input is `SOURCE DESTINATION [-r] [-s LEVEL]`; empty lines and lines that begin with `#` are skipped. All lines name
    the same source endpoint and the same destination endpoint. A list of a million lines is accepted. All lines are
    checked before the task is made: an error names the line and the column, and then there is no task.

    A folder ends with `/` and needs -r: the contents of SOURCE/ go into DESTINATION/. The destination of a file is the
    whole name of the new file. Folders that are missing at the destination are made. There is no globbing.

    With --taskid, the task has that id. If you have a task of that id already, its id is printed again, and no second
    task is made: a script may safely repeat the command. `transfer --generate-id` prints a new id.

    `--dry-run` checks the list, the endpoints, the paths and the options, and shows a summary. It does not look at the
    files.
    """
    if arguments["generate_id"]:
        context.out(f"{uuid.uuid4()}\n")
        return
    with Spool(context.user.pk) as spool:
        lines = TransferLines(context, spool, arguments["recursive"], arguments["sync_level"])
        count = _take_all(context, arguments, 2, lines.take)
        if not count:
            raise ShellError(_NO_LINES.format("SOURCE and DESTINATION", "transfer"))
        shown = submissions.quoted(arguments) if arguments.operands else f"(+{count} input lines)"
        request = TransferRequest(
            source_endpoint=lines.source.endpoint,
            destination_endpoint=lines.destination.endpoint,
            items=SpooledItems(spool),
            options=submissions.movement(arguments, lines.level),
            **submissions.common("transfer", arguments, shown),
        )
        _submit_list(context, arguments, spool, request, lines.folders)


@command("delete", "[OPTIONS] < PATH_LIST | [OPTIONS] -- ENDPOINT/PATH [-r]", Heading.TASKS,
         *submissions.DELETION,
         flag("--dry-run", about="check everything, and show the summary of the task without making it"), FORM,
         summary="Submit a delete that runs in the background")  # fmt: skip
def delete(context: Context, arguments: Arguments) -> None:
    """Submits a task that deletes files, and folders with -r, and prints one line, `Task ID: ID`. `rm` does the same in
    the foreground.

    With an operand, that path is deleted, and standard input is not read. Without one, each line of standard input is
    `ENDPOINT/PATH [-r]`, and `%XX` stands for an octet of the path. All lines name the same endpoint, and all have -r
    or none has. All lines are checked before the task is made.
    """
    side = EndpointSide(context, "delete")
    recursive: set[bool] = set()

    with Spool(context.user.pk) as spool:

        def take(line: ListLine) -> None:
            path = side.path(line.operands[0], line.number)
            recursive.add(line.recursive or arguments["recursive"])
            _check_recursive(line, path, recursive)
            spool.add(path, str(line.number), str(line.operands[0].column))

        count = _take_all(context, arguments, 1, take)
        if not count:
            raise ShellError(_NO_LINES.format("ENDPOINT/PATH", "delete"))
        shown = submissions.quoted(arguments) if arguments.operands else f"(+{count} input lines)"
        request = DeleteRequest(
            endpoint=side.endpoint,
            paths=SpooledPaths(spool),
            options={**submissions.given(arguments, DELETE), "recursive": True in recursive},
            **submissions.common("delete", arguments, shown),
        )
        _submit_list(context, arguments, spool, request, count if True in recursive else 0)


def _check_recursive(line: ListLine, path: str, recursive: set[bool]) -> None:
    if len(recursive) > 1:
        text = line.operands[0].text
        raise transfer_lists.poor(
            line.number, f"-r is on some lines only: {text}", "write it on all lines, or before them"
        )
    if path.endswith("/") and True not in recursive:
        raise transfer_lists.not_recursive(line.text, "deleting", line.number or 1)


def _take_all(context: Context, arguments: Arguments, count: int, take: Any) -> int:
    """Take the operands, or all lines of standard input; return their number."""
    if arguments.operands:
        take(transfer_lists.of_operands(arguments.operands, count))
        return 1
    found = 0
    if context.has_input:
        for line in transfer_lists.read(context, count):
            take(line)
            found += 1
    return found


def _submit_list(
    context: Context, arguments: Arguments, spool: Spool, request: TransferRequest | DeleteRequest, folders: int
) -> None:
    try:
        if arguments["dry_run"]:
            _show_summary(context, arguments, request, folders)
            return
        task, made = submissions.submit(context, request)
    except RequestError as error:
        raise transfer_lists.line_of(spool, error) or error from None
    submissions.accepted(context, arguments, task, made=made)


def _show_summary(
    context: Context, arguments: Arguments, request: TransferRequest | DeleteRequest, folders: int
) -> None:
    found = context.call(_checked, context.user, request)
    found["folders"] = folders
    if arguments["form"] == "json":
        show(context, {"DATA_TYPE": "submission_check", "code": "Checked", **found, "options": dict(request.options)})
        return
    for key, value in found.items():
        context.out(f"{key.replace('_', ' ').title():<20}: {value}\n")
    if request.options.get("delete_destination_extra"):
        context.out("Delete              : files that only the destination has will be deleted\n")
    context.out("Nothing was submitted.\n")


def _checked(user: User, request: TransferRequest | DeleteRequest) -> dict[str, Any]:
    if isinstance(request, TransferRequest):
        submission.check_transfer(user, request)
        source = registry.resolve(user, request.source_endpoint, Permission.VIEW)
        target = registry.resolve(user, request.destination_endpoint, Permission.VIEW)
        names = {"source_endpoint": source, "destination_endpoint": target}
        items = len(request.items)
    else:
        submission.check_delete(user, request)
        names = {"endpoint": registry.resolve(user, request.endpoint, Permission.VIEW)}
        items = len(request.paths)
    return {**{key: registry.canonical_name(one) for key, one in names.items()}, "items": items}
