"""`waybill task`: tasks of all users, for the operator: list, show, cancel, hold, release."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from deploy.stack.errors import StackError
from identity.error_categories import CategorizedError
from transferapi.config import Config

from .base import Commands, open_database, say, say_facts


def declare(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    tasks = commands.group("task", "tasks of all users")
    listing = tasks.add("list", run_list, "show unfinished tasks, with what each would still do")
    listing.add_argument("--held", action="store_true", help="only those that you hold, and held timers")
    tasks.add("show", run_show, "show one task").add_argument("task", type=_id)
    cancel = tasks.add("cancel", run_cancel, "cancel tasks")
    cancel.add_argument("tasks", type=_id, nargs="+", metavar="TASK")
    cancel.add_argument("--message", default="", metavar="TEXT", help="for the owner")
    hold = tasks.add("hold", run_hold, "keep tasks from running until `release`")
    hold.add_argument("tasks", type=_id, nargs="+", metavar="TASK")
    hold.add_argument("--message", default="", metavar="TEXT", help="for the owner")
    release = tasks.add("release", run_release, "let held tasks and timers run")
    release.add_argument("tasks", type=_id, nargs="*", metavar="ID", help="a task or a timer")
    release.add_argument("--all", action="store_true", help="all held tasks and timers")
    release.add_argument("--dry-run", action="store_true", help="only show what each would do")


def run_list(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from transferapi.tasks.managers import holds
    from transferapi.timers import holds as timer_holds

    count = _show(map(_task_line, holds.unfinished(held=arguments.held)))
    timers = _show(map(_timer_line, timer_holds.held()))
    say(f"{count} {'held' if arguments.held else 'unfinished'} tasks, {timers} held timers")


def run_show(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from transferapi.tasks.managers import holds

    task = holds.find(arguments.task)
    facts = {
        "task": task.pk,
        "owner": task.owner.username,
        "label": task.label,
        "state": f"{task.status} ({task.phase})",
        "why": f"{task.nice_status}: {task.nice_status_details}" if task.nice_status else None,
        "from, to": _places(task),
        "submitted": f"{task.request_time:%Y-%m-%d %H:%M:%SZ}",
        "deadline": f"{task.deadline:%Y-%m-%d %H:%M:%SZ}",
        "ended": f"{task.completion_time:%Y-%m-%d %H:%M:%SZ}" if task.completion_time else None,
        "transferred": f"{task.files_transferred} of {task.files} files, {task.bytes_transferred} octets",
        "left": None if task.completion_time else _left(task),
        "faults": task.faults,
    }
    say_facts(facts)


def run_cancel(config: Config, arguments: argparse.Namespace) -> None:
    """Cancels those that it finds, one after the other; status 1 where one was not found."""
    open_database()
    from transferapi.tasks import moves

    for task_id in arguments.tasks:
        said = moves.cancel_by_operator(task_id, arguments.message)
        say(f"{task_id}  {said}")


def run_hold(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from transferapi.tasks.managers import holds

    for task_id in arguments.tasks:
        holds.hold(task_id, arguments.message)
        say(f"{task_id}  held")


def run_release(config: Config, arguments: argparse.Namespace) -> int:
    open_database()
    if bool(arguments.tasks) == arguments.all:
        raise StackError("name tasks or timers, or give --all; `waybill task list --held` shows them")
    from transferapi.tasks.managers import holds
    from transferapi.timers import holds as timer_holds

    tasks = {task.pk: (_task_line(task), holds.release) for task in holds.unfinished(held=True)}
    timers = {timer.pk: (_timer_line(timer), timer_holds.release) for timer in timer_holds.held()}
    held = tasks | timers
    wanted = list(held) if arguments.all else list(dict.fromkeys(arguments.tasks))
    for key in wanted:
        if key not in held:
            raise StackError(f"nothing was released: there is no held task or timer {key}")
    refused = 0
    for key in wanted:
        line, release = held[key]
        try:
            if not arguments.dry_run:
                release(key)
        except CategorizedError as error:
            refused += 1
            sys.stderr.write(f"waybill: {key} stays held: {error.message}\n")
        else:
            say(line)
    say(f"{len(wanted) - refused} {'would be ' if arguments.dry_run else ''}released")
    return 1 if refused else 0


def _show(lines: Iterable[str] | Iterator[str]) -> int:
    count = 0
    for line in lines:
        say(line)
        count += 1
    return count


def _task_line(task: Any) -> str:
    return "  ".join([str(task.pk), task.owner.username, task.nice_status or task.phase, _places(task), _left(task)])


def _timer_line(timer: Any) -> str:
    return f"{timer.pk}  {timer.owner.username}  timer  {timer.name!r}, {timer.number_of_runs} runs so far"


def _places(task: Any) -> str:
    from endpoints.registry import canonical_name

    return " -> ".join(canonical_name(end) for end in (task.source, task.destination) if end)


def _left(task: Any) -> str:
    """The rest of an unfinished task, in words."""
    from transferapi.tasks.managers import holds

    rest = holds.remaining(task)
    if rest.files is None:
        left = f"its files are not all listed yet ({task.items_total} items)"
    else:
        left = f"{rest.files} files left, {rest.octets} octets"
    return f"{left}, {rest.removes.upper()}" if rest.removes else left


def _id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no id of a task") from None
