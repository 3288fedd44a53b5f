"""Run one line of the shell's language: find the command, read its options, call it, report its error."""

from __future__ import annotations

import json
import logging
import secrets
from itertools import pairwise

from endpoints.error_meanings import meaning
from transferapi.rest.maintenance import MaintenanceMode
from transferapi.tasks import maintenance
from transferapi.tasks.errors import TaskNotFoundError
from transferapi.tasks.upkeep import tallies

from . import output
from .command import COMMANDS, ShellCommand
from .commands import load
from .commands.help import nearest, usage, usage_line
from .context import Context
from .errors import (
    FAILED,
    INTERRUPTED,
    OK,
    DisconnectedError,
    InterruptedByUserError,
    SessionEndedError,
    ShellError,
    UsageError,
)
from .options import Arguments, parse
from .words import MAX_LINE, Word, split

log = logging.getLogger(__name__)
#: Commands that no key is refused.
_ALWAYS = ("exit", "quit", "logout")
#: Commands that change nothing: they go on during maintenance.
READING = frozenset(
    {*_ALWAYS, "acl-list", "bookmark-list", "details", "endpoint-details", "endpoint-list", "endpoint-role-list"}
    | {"endpoint-search", "events", "help", "history", "identity-details", "identity-list", "ls", "man", "profile"}
    | {"server-list", "status", "versions", "wait"}
)
load()


def run(line: str, context: Context) -> int:
    """Returns the exit status, never 255 (that is ssh's own). Raises DisconnectedError, and SessionEndedError (`exit`).

    Every error is reported on standard error. Nothing of the line is logged but the name of the command.
    """
    try:
        words = _split(line)
    except UsageError as error:
        context.err(f"Error: {error.message}\n")
        return error.status
    if not words:
        return OK
    found = COMMANDS.get(words[0].text)
    if found is None or not (found.name in _ALWAYS or context.allows(found.name)):
        context.err(_unknown(words[0], found, context))
        return UsageError.status
    status = FAILED
    try:
        status = _run(found, words[1:], context)
    except SessionEndedError:
        status = OK
        raise
    finally:
        # The names are those of our commands: other words of users are not counted.
        tallies.add("shell_commands", found.name, "ok" if status == OK else "failed")
    return status


def _split(line: str) -> list[Word]:
    """Raises UsageError. Transports bound the lines that they read; the text of one request is bounded here."""
    if len(line) > MAX_LINE:
        raise UsageError(f"the line is longer than {MAX_LINE} octets; nothing of it was run")
    return split(line)


def _unknown(word: Word, found: ShellCommand | None, context: Context) -> str:
    if found is not None:
        what = "token of this request" if context.transport == "https" else "ssh key of this session"
        return f"Error: The {what} does not permit the command '{found.name}'\n"
    near = nearest(word.text)
    advice = f"did you mean '{near}'?" if near else "type 'help' for the commands"
    return f"Error: No such command '{output.line(word.text)}': {advice}\n"


def _run(command: ShellCommand, words: list[Word], context: Context) -> int:
    try:
        arguments = parse(command.options, words)
        if arguments["help"]:
            context.out(usage(command))
            return OK
        if (notice := maintenance.current()) and not _only_reads(command, arguments):
            raise MaintenanceMode(notice.sentence)
        return command.run(context, arguments) or OK
    except InterruptedByUserError:
        return INTERRUPTED
    except (DisconnectedError, SessionEndedError):
        raise
    except Exception as error:
        _report(error, command, words, context)
        return error.status if isinstance(error, ShellError) else FAILED


def _only_reads(command: ShellCommand, arguments: Arguments) -> bool:
    return command.name in READING and not (command.name == "profile" and "notifications" in arguments.given)


def _report(error: Exception, command: ShellCommand, words: list[Word], context: Context) -> None:
    """Write the error in the form that the line asks for: text, or JSON with `-O json`."""
    name = secrets.token_urlsafe(7)
    code, lines = _described(error, command, name)
    if _wants_json(words):
        document = {"code": code, "message": "\n".join(lines).removeprefix("Error: "), "request_id": name}
        context.err(json.dumps(document) + "\n")
        return
    if isinstance(error, UsageError):
        lines = [usage_line(command), "", f"{command.name}: error: {error.message}"]
    context.err("".join(f"{output.line(line)}\n" for line in lines))


def _described(error: Exception, command: ShellCommand, name: str) -> tuple[str, list[str]]:
    """The code of the error, and its lines. name: that of the request, under which an error of ours is logged."""
    if isinstance(error, ShellError):
        return error.code, error.lines()
    status, code, message = meaning(error, name)
    if status == 500:
        log.error("request %s: the command %s failed", name, command.name, exc_info=error)
    if isinstance(error, TaskNotFoundError):
        message = f"No such task id '{error.ref}'"  # the words of the historical shell
    return code, f"Error: {message}".splitlines()


def _wants_json(words: list[Word]) -> bool:
    """Whether the line asks for JSON, as far as one can say of a line that may be wrong."""
    texts = [word.text for word in words]
    written = {name + join + "json" for name in output.FORM.names for join in ("", "=")}
    return not written.isdisjoint(texts) or any((name, "json") in pairwise(texts) for name in output.FORM.names)
