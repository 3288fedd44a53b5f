"""The errors of the shell, with the exit status and the text that each gives.

ShellError              exit 1: `Error: TEXT`
|- UsageError           exit 2: the usage of the command, then `COMMAND: error: TEXT`
|- InvalidNumberError   exit 1: `Error: Invalid Number 'TEXT'`, as the historical shell reported it
|- OperationError       exit 1: `Error: TEXT`, `Command: TEXT`, `Message: CAUSE`, `Details: TEXT`
DisconnectedError       the client has gone: nothing can be written any more
InterruptedByUserError  CTRL-C: exit 130
SessionEndedError       `exit`: no further line is run

A command may end by an error of the domain too (`identity.error_categories`): `interpreter.run` reports it with the
code and the message that REST gives.
"""

from __future__ import annotations

OK, FAILED, USAGE = 0, 1, 2
#: `wait`: the task waits for a person; the time is over.
INACTIVE, TIMED_OUT = 3, 4
INTERRUPTED = 130


class ShellError(Exception):
    """message: a sentence without a line break. code: for programs, as in REST. advice: the form that works.

    The advice stands on a line of its own where the historical shell has the same message: scripts compare its line.
    """

    status = FAILED

    def __init__(self, message: str, code: str = "ClientError.BadRequest", *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.advice = advice

    def lines(self) -> list[str]:
        return [f"Error: {self.message}", *filter(None, [self.advice])]


class UsageError(ShellError):
    """The line is not in the form that the command takes."""

    status = USAGE


class InvalidNumberError(ShellError):
    """The value of an option is no number, or not one within its bounds."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(f"Invalid Number '{text}'", advice=advice)


class OperationError(ShellError):
    """An operation on the files of an endpoint failed. Clients find the cause on the third line.

    cause: "No such file or directory", "Permission denied", "Path already exists", "Could not connect to server" or
    "Fatal FTP Response". message may have no line break. details: lines after the cause.
    """

    def __init__(self, message: str, command: str, cause: str, details: str = "", code: str = "ExternalError") -> None:
        super().__init__(message, code)
        self.command = command
        self.cause = cause
        self.details = details

    def lines(self) -> list[str]:
        more = [f"Details: {line}" for line in self.details.splitlines()]
        return [f"Error: {self.message}", f"Command: {self.command}", f"Message: {self.cause}", *more]


class DisconnectedError(Exception):
    """The client has gone, or has read nothing for too long."""


class InterruptedByUserError(Exception):
    """The user has pressed CTRL-C."""


class SessionEndedError(Exception):
    """The user has left the shell: the lines that follow are not run. The exit status is that of the last command."""
