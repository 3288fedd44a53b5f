"""Help and manual pages, made from the declarations of the commands."""

from __future__ import annotations

import difflib
import textwrap

from .command import COMMANDS, ShellCommand
from .options import Option

WIDTH = 79


def usage_line(command: ShellCommand) -> str:
    return f"Usage: {command.name} {command.usage}".rstrip()


def usage(command: ShellCommand) -> str:
    """The text of `COMMAND -h`."""
    return _page(command, f"{command.summary}.")


def manual(command: ShellCommand) -> str:
    """The text of `man COMMAND`."""
    return _page(command, reflowed(command.manual))


def _page(command: ShellCommand, text: str) -> str:
    options = "".join(map(_option, command.options))
    return f"{usage_line(command)}\n\n{text}\n\nOptions:\n{options}"


def reflowed(text: str) -> str:
    """Paragraphs filled to WIDTH. Those with an indented line, such as examples and lists, stay as they are."""
    return "\n\n".join(map(_paragraph, text.split("\n\n")))


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if any(line.startswith((" ", "- ")) for line in lines):
        return text
    return textwrap.fill(" ".join(lines), WIDTH, break_long_words=False, break_on_hyphens=False)


def nearest(name: str) -> str | None:
    """The command whose name is most like this one."""
    return next(iter(difflib.get_close_matches(name[:64], list(COMMANDS), 1, 0.75)), None)


def _option(one: Option) -> str:
    names = ", ".join(name + (f" {one.metavar}" if one.metavar else "") for name in one.names)
    head = f"  {names}"
    text = textwrap.wrap(one.help, WIDTH - 26)
    first = f"{head:<24}  {text[0]}" if len(head) <= 24 else f"{head}\n{'':26}{text[0]}"
    return "\n".join([first, *(f"{'':26}{line}" for line in text[1:])]) + "\n"
