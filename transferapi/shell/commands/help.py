"""help, man, exit; help and manual pages are made from the declarations of the commands."""

from __future__ import annotations

import difflib
import textwrap
from itertools import zip_longest

from transferapi.shell.command import COMMANDS, Heading, ShellCommand, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import SessionEndedError, ShellError
from transferapi.shell.options import Arguments, Option


@command("help", "[COMMAND]", Heading.OTHER, summary="List the commands, or show the options of one")
def show_help(context: Context, arguments: Arguments) -> None:
    """Without an operand, lists the commands that the ssh key of the session permits, by what they are for. With the
    name of a command, shows its options.
    """
    if arguments.operands:
        context.out(usage(_known(operands(arguments, 1)[0])))
        return
    context.out("Type '<command> -h' for basic help on a command.\nType 'man <command>' for detailed help.\n\n")
    listed = [one for one in COMMANDS.values() if not one.hidden and (one.name == "exit" or context.allows(one.name))]
    columns = [[one.name for one in listed if one.heading is heading] for heading in Heading]
    rows = [[heading.value for heading in Heading], ["-" * len(heading.value) for heading in Heading]]
    rows += map(list, zip_longest(*map(sorted, columns), fillvalue=""))
    for row in rows:
        context.out(f"{row[0]:<22}{row[1]:<26}{row[2]}".rstrip() + "\n")


@command("man", "COMMAND", Heading.OTHER, summary="Show the manual page of a command")
def man(context: Context, arguments: Arguments) -> None:
    """Shows what a command does, its operands, its options, its output and its exit status. docs/shell.md has the
    same text.
    """
    context.out(manual(_known(operands(arguments, 1)[0])))


def _known(name: str) -> ShellCommand:
    found = COMMANDS.get(name)
    if found is None:
        near = nearest(name)
        raise ShellError(f"No manual entry for '{name}'" + (f"; did you mean '{near}'?" if near else ""), "NotFound")
    return found


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
    options = "".join(map(_option_lines, command.options))
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


def _option_lines(one: Option) -> str:
    names = ", ".join(name + (f" {one.metavar}" if one.metavar else "") for name in one.names)
    head = f"  {names}"
    text = textwrap.wrap(one.help, WIDTH - 26)
    first = f"{head:<24}  {text[0]}" if len(head) <= 24 else f"{head}\n{'':26}{text[0]}"
    return "\n".join([first, *(f"{'':26}{line}" for line in text[1:])]) + "\n"


_SUMMARY = "Leave the shell"


@command("exit", "", Heading.OTHER, summary=_SUMMARY)
@command("quit", "", Heading.OTHER, summary=_SUMMARY, hidden=True)
@command("logout", "", Heading.OTHER, summary=_SUMMARY, hidden=True)
def leave(context: Context, arguments: Arguments) -> None:
    """Leaves the shell; `quit`, `logout` and CTRL-D at the prompt do the same. Of commands that come on standard
    input, those behind `exit` are not run. The exit status is that of the last command before it. Tasks go on.
    """
    operands(arguments, 0)
    raise SessionEndedError
