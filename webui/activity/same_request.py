"""The request of a task for other interfaces: curl, the globus command, Python, and the ssh shell; to copy.

The texts have no token. Names from endpoints are quoted for each language.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from transferapi.tasks import options
from transferapi.tasks.models import Item, Task
from transferapi.tasks.states import TaskType

from . import summary


@dataclass(frozen=True)
class ShownCommand:
    """key: a part of the ids of its elements."""

    key: str
    title: str
    text: str


def commands(task: Task, items: list[Item]) -> list[ShownCommand]:
    """The ways to submit this request. items: not empty."""
    document = _document(task, items)
    found = [
        ShownCommand("curl", "curl", _curl(task, document)),
        ShownCommand("python", "Python", _python(task, document)),
    ]
    if not all(_is_text(item) for item in items):
        return found
    found.insert(1, ShownCommand("globus", "globus", _globus(task, items)))
    if task.type == TaskType.TRANSFER:
        found.append(ShownCommand("shell", "ssh", _shell(task, items)))
    return found


def _document(task: Task, items: list[Item]) -> dict[str, Any]:
    is_delete = task.type == TaskType.DELETE
    known = options.DELETE if is_delete else options.TRANSFER
    given = {
        name: task.options[name]
        for name, (default, _) in known.items()
        if task.options.get(name) is not None and task.options[name] != default
    }
    ends = (
        {"endpoint": str(task.source_id)}
        if is_delete
        else {"source_endpoint": str(task.source_id), "destination_endpoint": str(task.destination_id)}
    )
    rows = [_item(item, is_delete=is_delete) for item in items]
    label = {"label": task.label} if task.label else {}
    return {"DATA_TYPE": task.type.lower(), "submission_id": "SUBMISSION_ID", **ends, **label, **given, "DATA": rows}


def _is_text(item: Item) -> bool:
    """Whether lines of text can name its paths. JSON has escapes for octets that are not UTF-8."""
    try:
        (item.source_path + (item.destination_path or "")).encode()
    except UnicodeEncodeError:
        return False
    return True


def _item(item: Item, *, is_delete: bool) -> dict[str, Any]:
    if is_delete:
        return {"DATA_TYPE": "delete_item", "path": item.source_path}
    kind = {"recursive": item.recursive} if item.recursive is not None else {}
    paths = {"source_path": item.source_path, "destination_path": item.destination_path}
    return {"DATA_TYPE": "transfer_item", **paths, **kind}


def _api() -> str:
    return f"{settings.PUBLIC_URL}/v0.10"


def _curl(task: Task, document: dict[str, Any]) -> str:
    # The id of the submission is a variable of the shell: the same request sent twice makes one task.
    body = """'"$ID"'""".join(shlex.quote(json.dumps(document, indent=1)).split("SUBMISSION_ID"))
    return (
        f'API={_api()}\nAUTH="Authorization: Bearer $TOKEN"\n'
        'ID=$(curl -sS -H "$AUTH" $API/submission_id |\n'
        """  python3 -c 'import json, sys; print(json.load(sys.stdin)["value"])')\n"""
        f'curl -sS -H "$AUTH" -H "Content-Type: application/json" $API/{task.type.lower()} -d {body}\n'
    )


def _python(task: Task, document: dict[str, Any]) -> str:
    text = json.dumps(document, indent=4)
    for word, written in (("true", "True"), ("false", "False")):
        text = text.replace(f": {word}", f": {written}")
    text = text.replace('"SUBMISSION_ID"', 'call("submission_id")["value"]')
    return (
        "import json, os, urllib.request\n\n"
        f'API = "{_api()}"\n'
        'HEADERS = {"Authorization": f"Bearer {os.environ[\'TOKEN\']}", "Content-Type": "application/json"}\n\n\n'
        "def call(path, document=None):\n"
        "    body = None if document is None else json.dumps(document).encode()\n"
        '    request = urllib.request.Request(f"{API}/{path}", body, HEADERS)\n'
        "    with urllib.request.urlopen(request, timeout=60) as answer:\n"
        "        return json.load(answer)\n\n\n"
        f'print(call("{task.type.lower()}", {text})["task_id"])\n'
    )


_SYNC_LEVELS = {0: "exists", 1: "size", 2: "mtime", 3: "checksum"}
_FLAGS = {
    "preserve_timestamp": " --preserve-mtime",
    "encrypt_data": " --encrypt-data",
    "delete_destination_extra": " --delete",
}


def _globus(task: Task, items: list[Item]) -> str:
    label = f" --label {shlex.quote(task.label)}" if task.label else ""
    if task.type == TaskType.DELETE:
        flags = " --recursive" if task.options.get("recursive") else ""
        rows = [shlex.quote(item.source_path) for item in items]
        return f"globus delete{flags}{label} --batch - {task.source_id}{_lines(rows)}"
    level = task.options.get("sync_level")
    flags = f" --sync-level {_SYNC_LEVELS[level]}" if level in _SYNC_LEVELS else ""
    flags += " --verify-checksum" if task.options.get("verify_checksum") else " --no-verify-checksum"
    flags += "".join(flag for option, flag in _FLAGS.items() if task.options.get(option))
    rows = [
        f"{'--recursive ' if item.recursive else ''}{shlex.quote(item.source_path)} "
        f"{shlex.quote(item.destination_path or '')}"
        for item in items
    ]
    return f"globus transfer{flags}{label} --batch - {task.source_id} {task.destination_id}{_lines(rows)}"


def _shell(task: Task, items: list[Item]) -> str:
    seen = summary.of(task)
    label = f" --label={shlex.quote(task.label)}" if task.label else ""
    rows = [
        f"{shlex.quote(seen.source + item.source_path)} {shlex.quote(seen.destination + (item.destination_path or ''))}"
        f"{' -r' if item.recursive else ''}"
        for item in items
    ]
    host = (settings.PUBLIC_URL.split("://")[-1]).split(":")[0].strip("/")
    return f"ssh {shlex.quote(task.owner.username)}@{host} transfer{label}{_lines(rows)}"


def _lines(rows: list[str]) -> str:
    """The standard input of a command. No row is END: each begins with a path, and a path with a slash."""
    text = "\n".join(rows)
    return f" <<'END'\n{text}\nEND\n"
