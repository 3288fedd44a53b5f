"""scp, rm: tasks of one item, in the foreground."""

from __future__ import annotations

from endpoints import operations
from identity.error_categories import CategorizedError
from transferapi.shell import foreground, submissions, transfer_lists
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import OK, ShellError
from transferapi.shell.names import Location
from transferapi.shell.operation_errors import FailedOperation, operate
from transferapi.shell.options import Arguments, flag
from transferapi.shell.output import FORM
from transferapi.shell.transfer_lists import EndpointSide
from transferapi.tasks.options import DELETE
from transferapi.tasks.submission import DeleteRequest, TransferItem, TransferRequest

_BACKGROUND = flag("-D", "--background", about="print the task id and return; the task goes on")


@command("scp", "[OPTIONS] SOURCE DESTINATION", Heading.TASKS, *submissions.MOVEMENT, submissions.TASK_ID, _BACKGROUND,
         flag("-v", key="verbose", about="accepted for old scripts"), FORM,
         summary="Copy a file or a folder, and wait until it has arrived")  # fmt: skip
def scp(context: Context, arguments: Arguments) -> int:
    """Copies a file, or with -r a folder, as a task, and waits for its end with a progress line: files that are done,
    all files found so far, and the rate; at a terminal with the part of the octets and the time that is left. CTRL-C
    cancels the task. `bg` and ENTER, or CTRL-Z, leave it running in the background; so does a lost connection. With -D
    the command returns at once.

    SOURCE and DESTINATION are ENDPOINT:PATH (or ENDPOINT/PATH). A path without `/` at its beginning lies below your
    home; `ENDPOINT:` alone is your home.

    If DESTINATION is a folder, or ends with `/`, the copy has the name of the source in it. If SOURCE ends with `/`,
    the contents of that folder go into DESTINATION: `scp -r EP1:/X/ EP2:/Y/` makes /Y/a of /X/a.

    With -s or --delete, a folder of the same name is the copy itself, so that the command can be repeated:
    `scp -r -s 1 EP1:/X/d EP2:/Y/d` compares /Y/d with /X/d. `EP2:/Y/d/` would name a place for /Y/d/d.

    If the source is not there, the task is canceled, and the command fails. With -D, the task waits for the source
    until its deadline.

    The exit status is 0 if the task has succeeded or goes on in the background, 1 if it has failed, 3 if it waits for
    you to activate an endpoint, and 130 if you have canceled it.
    """
    texts = operands(arguments, 2)
    source, destination = (EndpointSide(context, side, decode=False) for side in ("source", "destination"))
    from_, to = source.path(arguments.operands[0]), destination.path(arguments.operands[1])
    if from_.endswith("/") and not arguments["recursive"]:
        raise transfer_lists.not_recursive(" ".join(texts), "transfering")
    request = TransferRequest(
        source_endpoint=source.endpoint,
        destination_endpoint=destination.endpoint,
        items=[_item(context, arguments, from_, Location(destination.endpoint, to))],
        options=submissions.movement(arguments, arguments["sync_level"]),
        **submissions.common("scp", arguments, submissions.quoted(arguments)),
    )
    return _run(context, arguments, request)


def _item(context: Context, arguments: Arguments, source: str, destination: Location) -> TransferItem:
    to, recursive = destination.path, arguments["recursive"]
    if source.endswith("/"):
        return TransferItem(source, to, recursive=True)
    name = source.rpartition("/")[2]
    compares = recursive and (arguments["delete_destination_extra"] or arguments["sync_level"] is not None)
    is_the_copy = compares and to.rpartition("/")[2] == name
    if to.endswith("/") or (not is_the_copy and _is_folder(context, destination)):
        to = to.rstrip("/") + "/" + name
    # With -r, the scan finds out whether the source is a folder.
    return TransferItem(source, to, recursive=None if recursive else False)


def _is_folder(context: Context, place: Location) -> bool:
    """Whether a folder is there. Where the server does not answer, the task finds out."""
    asked = FailedOperation(place.endpoint, place.path, "STAT", "StatFailed")
    try:
        _, entry = operate(context, asked, operations.stat, place.path)
    except (ShellError, CategorizedError):
        return False
    return entry.is_directory


@command("rm", "[OPTIONS] ENDPOINT:PATH", Heading.TASKS, *submissions.DELETION, _BACKGROUND, FORM,
         summary="Delete a file or a folder, and wait until it is gone")  # fmt: skip
def rm(context: Context, arguments: Arguments) -> int:
    """Deletes a file, or with -r a folder with all that is in it, as a task, and waits for its end as `scp` does. A
    folder is deleted with and without `/` at the end of its name; without -r the command fails, and deletes nothing.

    `*` in the path stands for itself; with --globs, the path is a pattern.
    """
    [text] = operands(arguments, 1)
    side = EndpointSide(context, "delete", decode=False)
    path = side.path(arguments.operands[0])
    if path.endswith("/") and not arguments["recursive"]:
        raise transfer_lists.not_recursive(text, "deleting")
    request = DeleteRequest(
        endpoint=side.endpoint,
        paths=[path],
        options={**submissions.given(arguments, DELETE), "recursive": arguments["recursive"]},
        **submissions.common("rm", arguments, submissions.quoted(arguments)),
    )
    return _run(context, arguments, request)


def _run(context: Context, arguments: Arguments, request: TransferRequest | DeleteRequest) -> int:
    task, made = submissions.submit(context, request)
    submissions.accepted(context, arguments, task, made=made)
    if arguments["background"]:
        return OK
    return foreground.run(context, task, show=arguments["form"] != "json")
