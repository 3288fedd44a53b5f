"""Commands on tasks that exist: wait, cancel, pause, resume, modify, retry, and answers about deletions."""

from __future__ import annotations

import uuid

from transferapi.rest.transfer import task_documents
from transferapi.rest.transfer.task_views import CANCEL_MESSAGES
from transferapi.shell import foreground, submissions
from transferapi.shell.command import Heading, answer, command, operands, show
from transferapi.shell.commands import tasks
from transferapi.shell.context import Context, Signal
from transferapi.shell.errors import INTERRUPTED, OK, UsageError
from transferapi.shell.options import Arguments, flag, option
from transferapi.shell.output import FORM
from transferapi.tasks import moves, queries
from transferapi.tasks.items import retry as retries
from transferapi.tasks.items.retry import NewTask
from transferapi.tasks.managers import actions
from transferapi.tasks.worker import deletion_requests

#: Tasks of one `wait` or `cancel`.
MOST = 100
_WAIT_SECONDS = submissions.number(0, 10**8)


@command("wait", "[OPTIONS] ID [ID ...]", Heading.TASKS,
         flag("-q", "--quiet", about="print nothing"),
         option("--timeout", metavar="SECONDS", read=_WAIT_SECONDS, about="wait no longer than this"),
         flag("-c", "--cancel", about="CTRL-C cancels the tasks"), FORM,
         summary="Wait until tasks are done")  # fmt: skip
def wait(context: Context, arguments: Arguments) -> int:
    """Waits until each of the tasks is done or waits for you, with a progress line: files that are done, all files
    found so far, and the rate. CTRL-C ends the waiting, and with -c cancels the tasks.

    The exit status is 0 if all tasks have SUCCEEDED, 1 if one has FAILED, 3 if one is INACTIVE (you must activate an
    endpoint), 4 if the time of --timeout is over, and 130 after CTRL-C. Of several states, the first of 1, 3 and 4
    counts.
    """
    ids = _ids(arguments)
    show_line = not arguments["quiet"] and arguments["form"] != "json"
    end = foreground.wait(context, ids, show=show_line, seconds=arguments["timeout"])
    if end is Signal.INTERRUPT:
        if arguments["cancel"]:
            for one in ids:
                context.call(moves.cancel, context.user, one)
        return INTERRUPTED
    if end in (Signal.BACKGROUND, Signal.DISCONNECTED):
        return OK
    if arguments["form"] == "json":
        show(context, context.call(lambda: [task_documents.task(queries.get(context.user, one)) for one in ids]))
    return foreground.status(context, ids)


@command("cancel", "[OPTIONS] ID [ID ...] | --all", Heading.TASKS,
         flag("--all", about="all your tasks that are not done"), FORM, summary="Cancel tasks")  # fmt: skip
def cancel(context: Context, arguments: Arguments) -> None:
    """Cancels tasks, and prints a line for each. Files that have arrived stay. A task that is in progress ends within
    seconds. It is no error to cancel a task that is done.
    """
    if arguments["all"] == bool(arguments.operands):
        raise UsageError("give the ids of tasks, or --all")
    if arguments["all"]:
        ids = [task.pk for task in context.call(tasks.tasks, context.user, tasks.UNFINISHED, MOST)]
    else:
        ids = _ids(arguments)
        for one in ids:
            context.call(queries.get, context.user, one)
    results = [_cancel(context, arguments, one) for one in ids]
    if arguments["form"] == "json":
        show(context, results[0] if len(results) == 1 else results)


def _cancel(context: Context, arguments: Arguments, task: uuid.UUID) -> dict[str, str]:
    outcome = context.call(moves.cancel, context.user, task)
    message = CANCEL_MESSAGES[outcome]
    if arguments["form"] != "json":
        context.out(f"{task}: {message}\n")
    return {"DATA_TYPE": "result", "code": outcome.value, "message": message, "task_id": str(task)}


@command("pause", "[OPTIONS] ID [ID ...]", Heading.TASKS, FORM, summary="Pause tasks")
def pause(context: Context, arguments: Arguments) -> None:
    """Pauses tasks until `resume`. There is no output. Arrived files stay; a task that is in progress pauses within
    seconds. The time of the pause does not count against the deadline; a pause of more than 90 days ends the task.
    """
    for one in _ids(arguments):
        context.call(actions.pause_own, context.user, one)
    answer(context, arguments, "result", "Paused", "The tasks are paused")


@command("resume", "[OPTIONS] ID [ID ...]", Heading.TASKS, FORM, summary="End your pause of tasks")
def resume(context: Context, arguments: Arguments) -> None:
    """Ends what `pause` began. There is no output. A task that a manager of an endpoint has paused stays paused."""
    for one in _ids(arguments):
        context.call(actions.resume_own, context.user, one)
    answer(context, arguments, "result", "Resumed", "Your pause of the tasks is over")


@command("confirm-deletion", "[OPTIONS] ID [ID ...]", Heading.TASKS, FORM,
         summary="Let mirrors delete what they have asked about")  # fmt: skip
def confirm_deletion(context: Context, arguments: Arguments) -> None:
    """Answers tasks that wait because a mirror would delete much of its destination (`transfer --delete
    --confirm-above`, and the page): they go on, and delete all that the source does not have. There is no output.
    `details ID` says how much that is. Look first whether the source is complete: a disk that is not mounted is empty.
    """
    for one in _ids(arguments):
        context.call(deletion_requests.answer, context.user, one, delete=True)
    answer(context, arguments, "result", "Confirmed", "The tasks are queued again, and delete")


@command("refuse-deletion", "[OPTIONS] ID [ID ...]", Heading.TASKS, FORM,
         summary="End mirrors without the deletion that they have asked about")  # fmt: skip
def refuse_deletion(context: Context, arguments: Arguments) -> None:
    """Answers tasks that wait as for `confirm-deletion`, in the other way: they end without a deletion. Files
    that have arrived stay. There is no output.
    """
    for one in _ids(arguments):
        context.call(deletion_requests.answer, context.user, one, delete=False)
    answer(context, arguments, "result", "Refused", "The tasks are queued again, and end without a deletion")


@command("modify", "[OPTIONS] ID", Heading.TASKS, submissions.DEADLINE, submissions.LABEL, FORM,
         summary="Change the deadline or the label of a task")  # fmt: skip
def modify(context: Context, arguments: Arguments) -> None:
    """Changes the deadline or the label of a task that is not done. There is no output."""
    [text] = operands(arguments, 1)
    if not {"deadline", "label"} & arguments.given:
        raise UsageError("nothing to change: give --deadline or --label")
    task = tasks.parse_task_id(text)
    context.call(moves.update, context.user, task, label=arguments["label"], deadline=arguments["deadline"])
    answer(context, arguments, "result", "Updated", "Updated task successfully")


@command("retry", "[OPTIONS] ID", Heading.TASKS, submissions.DEADLINE, submissions.LABEL, submissions.TASK_ID, FORM,
         summary="Submit the failed files of a task again")  # fmt: skip
def retry(context: Context, arguments: Arguments) -> None:
    """Submits a new task with the files of a task that have failed or were skipped for an error, and with the options
    of that task; prints one line, `Task ID: ID`. Files that have arrived are not moved again. `details --failed-files`
    lists the files.

    The other task must be done. With --taskid, the same command again makes no second task.
    """
    [text] = operands(arguments, 1)
    new = NewTask(
        task_id=arguments["task_id"],
        label=arguments["label"],
        deadline=arguments["deadline"],
        command=submissions.command_text("retry", arguments, text),
    )
    task, made = submissions.submitted(context, retries.retry, context.user, tasks.parse_task_id(text), new)
    submissions.accepted(context, arguments, task, made=made, what="retry")


def _ids(arguments: Arguments) -> list[uuid.UUID]:
    """The operands, each once. Raises UsageError, ShellError."""
    return list(dict.fromkeys(map(tasks.parse_task_id, operands(arguments, 1, MOST))))
