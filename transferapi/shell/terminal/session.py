"""The interactive mode, and one command with a terminal (`ssh -t`)."""

from __future__ import annotations

from transferapi.shell import interpreter
from transferapi.shell.context import Caller, Context
from transferapi.shell.errors import OK, InterruptedByUserError, SessionEndedError, UsageError
from transferapi.tasks import maintenance

from .channel import TerminalChannel
from .completion import Completer
from .context import TerminalContext, Typing, encoded
from .editor import Editor
from .history import History
from .keyboard import Keyboard

PROMPT = "$ "
_LIST_PROMPT = "> "
_LIST_HINT = "Type one item a line. CTRL-D on an empty line ends the list, CTRL-C gives it up."


def run(channel: TerminalChannel, caller: Caller, *, site: str) -> int:
    """Read lines and run them until the user leaves. site: the name in the line of welcome.

    Returns the exit status, that of the last command. Raises DisconnectedError.
    """
    return _Session(channel, caller, interactive=True).run(site)


def run_line(channel: TerminalChannel, caller: Caller, line: str) -> int:
    """Run one line: no welcome, no prompt; CTRL-C, `bg` and questions as in the interactive mode.

    Returns the exit status. Raises DisconnectedError.
    """
    try:
        return _Session(channel, caller, interactive=False).interpret(line)
    except SessionEndedError:
        return OK


class _Session:
    def __init__(self, channel: TerminalChannel, caller: Caller, *, interactive: bool) -> None:
        self._channel = channel
        self._keyboard = Keyboard(channel)
        self._editor = Editor(channel, self._keyboard)
        completer = Completer(caller)
        self._complete = completer.complete
        typing = Typing(_LIST_HINT, _LIST_PROMPT, completer.complete_item) if interactive else Typing()
        self._context: Context = TerminalContext(channel, caller, self._keyboard, self._editor, typing)
        self._history = History()
        self._status = OK

    def run(self, site: str) -> int:
        self._write(f"Welcome to {site}, {self._context.user.username}. Type 'help' for help.\n")
        if notice := maintenance.current():
            self._write(f"Maintenance: {notice.sentence}\n")
        try:
            while True:
                self._one()
        except (EOFError, SessionEndedError):
            return self._status

    def interpret(self, line: str) -> int:
        return interpreter.run(line, self._context)

    def _one(self) -> None:
        """Read and run one line."""
        try:
            line = self._editor.read(PROMPT, self._history, self._complete)
        except InterruptedByUserError:
            return
        except UsageError as error:
            self._status = error.status
            self._write(f"Error: {error.message}\n")
            return
        self._status = self.interpret(line)
        if self._keyboard.dropped:
            self._keyboard.dropped = False
            self._write("Error: too much was typed ahead while the command ran; nothing of it was run\n")

    def _write(self, text: str) -> None:
        self._channel.write(encoded(text))
