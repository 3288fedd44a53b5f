"""Options of transfers and deletes, and their submission, for `transfer`, `scp`, `delete`, `rm` and `retry`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ParamSpec

from transferapi.rest.transfer import submission_documents
from transferapi.tasks import submission
from transferapi.tasks.errors import NoCredentialError
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.options import DELETE, RULE_FLAGS, TRANSFER, FilterRules, Flag, Kind, Number, OneOf, TaskOption
from transferapi.tasks.submission import DeleteRequest, TransferRequest

from . import options, output, words
from .command import COMMANDS, show
from .context import Context
from .errors import ShellError
from .operation_errors import not_activated
from .options import Arguments, Option, choice, flag, option

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
    "-d", "--deadline", metavar="TIME", read=options.from_now, about=f"end the task then: {options.FORMS}"
)
LABEL: Option = option("--label", metavar="TEXT", about="a label of up to 128 printable characters")
TASK_ID: Option = option("--taskid", metavar="ID", read=task_id, key="task_id", about="the id of the new task, from"
                         " --generate-id: the same command again makes no second task")  # fmt: skip
DELEGATE: Option = flag("-g", key="delegate", about=DELEGATION)
RECURSIVE: Option = flag("-r", "--recursive", after=True, about="folders too, with all that is in them")

#: Options that a command takes behind `--` too.
_AFTER = ("sync_level",)


def _flags(known: Iterable[TaskOption]) -> Iterator[Option]:
    """The flags of options of a submission. The key of each is the name of its option."""
    for one in known:
        about = one.sentence[0].lower() + one.sentence[1:].rstrip(".")
        kind = one.kind
        if isinstance(kind, FilterRules):
            yield from _rules(one.name)
        elif isinstance(kind, Flag):
            if one.flags:
                yield flag(*one.flags, key=one.name, default=None, about=about)
            if one.off_flag:
                off = f"turns off: {one.label.lower()}"
                yield flag(one.off_flag, key=one.name, value=False, default=None, about=off)
        elif one.flags:
            read: Callable[[str], Any]
            read = number(kind.lowest, kind.highest) if isinstance(kind, Number) else choice(*_words_of(kind))
            after = one.name in _AFTER
            yield option(*one.flags, metavar=one.metavar, key=one.name, read=read, after=after, about=about)


def _words_of(kind: Kind) -> Iterable[str]:
    return kind.words if isinstance(kind, OneOf) else ()


def _rules(key: str) -> Iterator[Option]:
    """The flags of filter rules. All have one key: the first rule that matches decides, whichever its flag is."""
    subjects = {None: "files and folders", "file": "files", "dir": "folders"}
    for (method, kind), name in RULE_FLAGS.items():
        verb = "pass over" if method == "exclude" else "do not pass over"
        about = f"{verb} {subjects[kind]} of this name (* ? [abc]), in every folder"
        read = partial(filter_rule, method, kind)
        yield option(name, metavar="PATTERN", key=key, read=read, many=True, about=about)


def filter_rule(method: str, kind: str | None, pattern: str) -> dict[str, object]:
    """For `Option.read`."""
    return {"method": method, "name": pattern, "type": kind}


#: The options of the data movement, for `transfer` and `scp`.
MOVEMENT: tuple[Option, ...] = (RECURSIVE, *_flags(TRANSFER.values()), DEADLINE, LABEL, DELEGATE)
#: The options of `delete`.
DELETION: tuple[Option, ...] = (
    RECURSIVE,
    *_flags(one for name, one in DELETE.items() if name != "recursive"),
    DEADLINE,
    LABEL,
    TASK_ID,
    DELEGATE,
)


def movement(arguments: Arguments, sync: int | None) -> dict[str, object]:
    """The options of the submission, by the names of REST."""
    found = given(arguments, TRANSFER)
    return found if sync is None else {**found, "sync_level": sync}


def given(arguments: Arguments, known: Mapping[str, TaskOption]) -> dict[str, object]:
    """The options that were given, by the names of REST."""
    return {name: arguments[name] for name in known if name in arguments.given}


def command_text(name: str, arguments: Arguments, operands: str) -> str:
    """The field `Command` of the task: the command with its options, then `operands`."""
    parts = [name]
    for one in COMMANDS[name].options:
        if one.key not in arguments.given or one.key in ("task_id", "form", "label") or one.many:
            continue
        value = arguments[one.key]
        if not one.metavar:
            parts += [one.names[0]] if value == one.value else []
        elif one.names[0].startswith("--"):
            parts.append(f"{one.names[0]}={output.value_text(value)}")
        else:
            parts.append(f"{one.names[0]} {words.quote(output.value_text(value))}")
    if "filter_rules" in arguments.given:
        for rule in arguments["filter_rules"]:
            parts.append(words.quote(f"{RULE_FLAGS[rule['method'], rule['type']]}={rule['name']}"))
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
