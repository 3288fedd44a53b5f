"""The request of a task for other interfaces: curl, the globus command, Python, and the ssh shell; to copy.

Each command makes the same request, with all of its options and items. An interface that cannot say one of them is left
out. The texts have no token. Names from endpoints are quoted for each language.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pprint import pformat
from typing import Any, cast
from urllib.parse import quote, urlsplit

from django.conf import settings

from transferapi.tasks import options
from transferapi.tasks.models import Item, Task
from transferapi.tasks.options import FilterRules, Flag, TaskOption
from transferapi.tasks.states import TaskType

from . import summary


@dataclass(frozen=True)
class ShownCommand:
    """key: a part of the ids of its elements."""

    key: str
    title: str
    text: str


class _CannotSayError(Exception):
    """An interface has no words for an option or an item of the request."""


def commands(task: Task, items: list[Item]) -> list[ShownCommand]:
    """The ways to submit this request. items: all of the task, at least one."""
    found = []
    for key, title, write in _WRITERS:
        with suppress(_CannotSayError):
            found.append(ShownCommand(key, title, write(task, items)))
    return found


def _set_options(task: Task) -> list[tuple[TaskOption, Any]]:
    """The options whose values are not the defaults."""
    known = options.of(task.type)
    given = [(one, task.options.get(name)) for name, one in known.items()]
    return [(one, value) for one, value in given if value is not None and value != one.default]


def _document(task: Task, items: list[Item]) -> dict[str, Any]:
    """The document of the request, without its submission id."""
    is_delete = task.type == TaskType.DELETE
    ends = (
        {"endpoint": str(task.source_id)}
        if is_delete
        else {"source_endpoint": str(task.source_id), "destination_endpoint": str(task.destination_id)}
    )
    label = {"label": task.label} if task.label else {}
    given = {one.name: value for one, value in _set_options(task)}
    rows = [_item(item, is_delete=is_delete) for item in items]
    return {"DATA_TYPE": task.type.lower(), **ends, **label, **given, "DATA": rows}


def _item(item: Item, *, is_delete: bool) -> dict[str, Any]:
    if is_delete:
        return {"DATA_TYPE": "delete_item", "path": item.source_path}
    paths = {"source_path": item.source_path, "destination_path": item.destination_path}
    if item.extra.get("symlink"):
        return {"DATA_TYPE": "transfer_symlink_item", **paths}
    kind = {"recursive": item.recursive} if item.recursive is not None else {}
    return {"DATA_TYPE": "transfer_item", **paths, **kind, **item.extra}


def _api() -> str:
    return f"{settings.PUBLIC_URL}/v0.10"


def _curl(task: Task, items: list[Item]) -> str:
    # The id of the submission is a variable of the shell: the same request sent twice makes one task.
    rest = json.dumps(_document(task, items), indent=1).removeprefix("{\n")
    body = f"""'{{\n "submission_id": "'"$ID"'",\n'{shlex.quote(rest)}"""
    return (
        f'API={_api()}\nAUTH="Authorization: Bearer $TOKEN"\n'
        'ID=$(curl -sS -H "$AUTH" $API/submission_id |\n'
        """  python3 -c 'import json, sys; print(json.load(sys.stdin)["value"])')\n"""
        f'curl -sS -H "$AUTH" -H "Content-Type: application/json" $API/{task.type.lower()} -d {body}\n'
    )


def _python(task: Task, items: list[Item]) -> str:
    document = pformat(_document(task, items), width=100, sort_dicts=False)
    return (
        "import json, os, urllib.request\n\n"
        f'API = "{_api()}"\n'
        'HEADERS = {"Authorization": f"Bearer {os.environ[\'TOKEN\']}", "Content-Type": "application/json"}\n'
        f"DOCUMENT = {document}\n\n\n"
        "def call(path, document=None):\n"
        "    body = None if document is None else json.dumps(document).encode()\n"
        '    request = urllib.request.Request(f"{API}/{path}", body, HEADERS)\n'
        "    with urllib.request.urlopen(request, timeout=60) as answer:\n"
        "        return json.load(answer)\n\n\n"
        'DOCUMENT["submission_id"] = call("submission_id")["value"]\n'
        f'print(call("{task.type.lower()}", DOCUMENT)["task_id"])\n'
    )


# ---- the globus command


def _globus(task: Task, items: list[Item]) -> str:
    # The command has the same defaults as the API, but for verification: each option is written that it has a flag for.
    known = options.of(task.type)
    flags = [word for one in known.values() for word in _globus_flags(one, task.options.get(one.name, one.default))]
    flags += _globus_notify(task)
    flags += ["--label", task.label] if task.label else []
    algorithms = {str(item.extra.get("checksum_algorithm", "")) for item in items}
    if len(algorithms) > 1:
        raise _CannotSayError
    flags += ["--checksum-algorithm", *algorithms] if algorithms != {""} else []
    ends = [str(task.source_id)] if task.type == TaskType.DELETE else [str(task.source_id), str(task.destination_id)]
    rows = [_globus_row(task, item) for item in items]
    return " ".join(["globus", task.type.lower(), *map(shlex.quote, flags), "--batch", "-", *ends]) + _lines(rows)


def _globus_flags(one: TaskOption, value: Any) -> Iterable[str]:
    if one.globus_notify:
        return ()
    if value is True and one.globus:
        return (one.globus,)
    if value is False and one.globus_off:
        return (one.globus_off,)
    if value == one.default or value is None:
        return ()
    if isinstance(one.kind, FilterRules):
        return _globus_rules(value)
    if not one.globus:
        raise _CannotSayError
    return (one.globus, one.globus_words[value] if one.globus_words else str(value))


def _globus_rules(rules: list[dict[str, Any]]) -> list[str]:
    """Its rules are those of files."""
    if any(rule.get("type") != "file" for rule in rules):
        raise _CannotSayError
    return [word for rule in rules for word in (f"--{rule['method']}", str(rule["name"]))]


def _globus_notify(task: Task) -> list[str]:
    events = [one for one in options.of(task.type).values() if one.globus_notify]
    wanted = [one.globus_notify for one in events if task.options.get(one.name, one.default)]
    return [] if len(wanted) == len(events) else ["--notify", ",".join(wanted) or "off"]


def _globus_row(task: Task, item: Item) -> str:
    paths = [item.source_path, *([item.destination_path] if item.destination_path else [])]
    if item.extra.get("symlink") or not all(map(_is_line, paths)):
        raise _CannotSayError
    if task.type == TaskType.DELETE:
        return shlex.quote(item.source_path)
    flags = {True: ["--recursive"], False: ["--no-recursive"]}.get(cast(bool, item.recursive), [])
    if given := item.extra.get("external_checksum"):
        # It takes one flag or the other; a checksum makes the item a file.
        flags = ["--external-checksum", str(given)]
    return " ".join(map(shlex.quote, [*flags, *paths]))


def _is_line(text: str) -> bool:
    """Whether it can stand in a line of UTF-8. JSON has escapes for octets that are not, and %XX has the shell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return len(text.splitlines()) == 1


# ---- the ssh shell


def _shell(task: Task, items: list[Item]) -> str:
    is_delete = task.type == TaskType.DELETE
    flags = [word for one, value in _set_options(task) for word in _shell_flags(one, value)]
    flags += [shlex.quote(f"--label={task.label}")] if task.label else []
    rows = [_shell_delete_row(task, item) if is_delete else _shell_row(task, item) for item in items]
    # The line is split twice: by the shell of the user, and by the ssh shell.
    line = shlex.quote(" ".join([task.type.lower(), *flags]))
    host = urlsplit(settings.PUBLIC_URL).hostname or ""
    return f"ssh -p {settings.SSH_PORT} {shlex.quote(f'{task.owner.username}@{host}')} {line}{_lines(rows)}"


def _shell_flags(one: TaskOption, value: Any) -> list[str]:
    if isinstance(one.kind, FilterRules):
        flags = [(options.RULE_FLAGS[rule["method"], rule.get("type")], rule["name"]) for rule in value]
        return [shlex.quote(f"{flag}={name}") for flag, name in flags]
    flag = one.off_flag if value is False else one.long_flag
    if not flag:
        raise _CannotSayError
    return [flag if isinstance(one.kind, Flag) else shlex.quote(f"{flag}={value}")]


def _shell_delete_row(task: Task, item: Item) -> str:
    return shlex.quote(_shell_path(summary.of(task).source, item.source_path))


def _shell_row(task: Task, item: Item) -> str:
    if item.extra:
        raise _CannotSayError
    seen = summary.of(task)
    source, destination = item.source_path, item.destination_path or ""
    if item.recursive is False and (source.endswith("/") or destination.endswith("/")):
        raise _CannotSayError
    if item.recursive and not source.endswith("/"):
        # A folder by its name alone would be looked at first.
        source += "/"
    paths = [_shell_path(seen.source, source), _shell_path(seen.destination, destination)]
    return " ".join(map(shlex.quote, paths)) + (" -r" if item.recursive is not False else "")


def _shell_path(endpoint: str, path: str) -> str:
    """In lists, %XX stands for an octet: of names that are not UTF-8, and of those with a percent sign."""
    raw = path.encode("utf-8", "surrogateescape")
    plain = _is_line(path) and "%" not in path
    return endpoint + (path if plain else quote(raw, safe="/ '!#$&()*+,:;=?@[]~"))


def _lines(rows: list[str]) -> str:
    """The standard input of a command. No row is END: each begins with a path, and a path with a slash."""
    text = "\n".join(rows)
    return f" <<'END'\n{text}\nEND\n"


_WRITERS: tuple[tuple[str, str, Callable[[Task, list[Item]], str]], ...] = (
    ("curl", "curl", _curl),
    ("globus", "globus", _globus),
    ("python", "Python", _python),
    ("shell", "ssh", _shell),
)
