"""The registry of commands. A module of `commands/` declares each of its commands with the decorator `command`.

    @command("mkdir", "[OPTIONS] ENDPOINT:PATH", Heading.FILES, flag("-p", about="..."), summary="Make a folder")
    def mkdir(context: Context, arguments: Arguments) -> int | None:
        '''The manual page: paragraphs of plain text.'''

The docstring is the text of `man mkdir` and of docs/shell.md; the options are added to it.

The output of a command that changes something: nothing or a line, or with `-O json` the document of REST.
"""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .context import Context
from .errors import UsageError
from .options import Arguments, Option, flag

Run = Callable[[Context, Arguments], int | None]
#: An option of all commands.
HELP = flag("-h", "--help", about="show this help")


class Heading(StrEnum):
    """The columns of `help`."""

    TASKS = "Task Management"
    ENDPOINTS = "Endpoint Management"
    OTHER = "Other"


@dataclass(frozen=True)
class ShellCommand:
    """usage: what follows the name. run: returns the exit status; None is 0. hidden: `help` does not list it."""

    name: str
    usage: str
    heading: Heading
    summary: str
    options: tuple[Option, ...]
    run: Run
    hidden: bool = False

    @property
    def manual(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")


#: All commands by name.
COMMANDS: dict[str, ShellCommand] = {}


def command(
    name: str, usage: str, heading: Heading, *options: Option, summary: str, hidden: bool = False
) -> Callable[[Run], Run]:
    """Declare a command. The same function may be declared under several names; the further ones are hidden."""

    def declare(run: Run) -> Run:
        COMMANDS[name] = ShellCommand(name, usage, heading, summary, (*options, HELP), run, hidden)
        return run

    return declare


def operands(arguments: Arguments, least: int, most: int | None = None) -> list[str]:
    """The operands, if their number is from `least` to `most` (None: no more than `least`). Raises UsageError."""
    most = least if most is None else most
    found = arguments.operands
    if len(found) < least:
        raise UsageError("an operand is missing" if found or least == 1 else f"{least} operands are missing")
    if len(found) > most:
        extra = found[most]
        raise UsageError(f"column {extra.column}: '{extra.text}' is one operand too many; quote a name with blanks")
    return [word.text for word in found]


def answer(
    context: Context, arguments: Arguments, data_type: str, code: str, message: str, text: str = "", **more: Any
) -> None:
    """text: what the text form prints; more: further fields of the document."""
    if arguments["form"] == "json":
        document = {"DATA_TYPE": data_type, "code": code, "message": message, **more}
        show(context, {**document, "request_id": secrets.token_urlsafe(7)})
    elif text:
        context.out(text)


def show(context: Context, document: Mapping[str, Any] | list[Any]) -> None:
    """Write a document as JSON."""
    context.out(json.dumps(document, indent=2, default=str) + "\n")
