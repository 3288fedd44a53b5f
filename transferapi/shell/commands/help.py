"""help, man."""

from __future__ import annotations

from itertools import zip_longest

from transferapi.shell import documentation
from transferapi.shell.command import COMMANDS, Heading, ShellCommand, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError
from transferapi.shell.options import Arguments


@command("help", "[COMMAND]", Heading.OTHER, summary="List the commands, or show the options of one")
def show_help(context: Context, arguments: Arguments) -> None:
    """Without an operand, lists the commands that the ssh key of the session permits, by what they are for. With the
    name of a command, shows its options.
    """
    if arguments.operands:
        context.out(documentation.usage(_known(operands(arguments, 1)[0])))
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
    context.out(documentation.manual(_known(operands(arguments, 1)[0])))


def _known(name: str) -> ShellCommand:
    found = COMMANDS.get(name)
    if found is None:
        near = documentation.nearest(name)
        raise ShellError(f"No manual entry for '{name}'" + (f"; did you mean '{near}'?" if near else ""), "NotFound")
    return found
