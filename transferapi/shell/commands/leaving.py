"""exit, with its other names quit and logout."""

from __future__ import annotations

from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.errors import SessionEndedError
from transferapi.shell.options import Arguments

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
