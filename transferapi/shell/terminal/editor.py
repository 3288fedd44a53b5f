"""Read one line from a terminal: keys change the line, and the display shows it. `History` has the lines before."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from transferapi.shell.errors import InterruptedByUserError, UsageError

from .display import Display
from .keyboard import Keyboard, TerminalChannel
from .keys import TerminalKey, Text
from .line import MAX_TYPED, Line
from .widths import columns, shown

_FAR = 1 << 20
_MOST_CHOICES = 200
_HISTORY_MOVES = {TerminalKey.UP: -1, TerminalKey.DOWN: 1, TerminalKey.OLDEST: -_FAR, TerminalKey.NEWEST: _FAR}


@dataclass(frozen=True, slots=True)
class Completion:
    """text: takes the place of what stands from `start` to the cursor. choices: to show where there are several."""

    start: int
    text: str
    choices: tuple[str, ...] = ()


#: Makes a completion of the text before the cursor; None where there is nothing to complete.
Complete = Callable[[str], Completion | None]


class Editor:
    """Reads lines from one terminal."""

    def __init__(self, channel: TerminalChannel, keyboard: Keyboard) -> None:
        self._channel = channel
        self._keyboard = keyboard
        self._line = Line()
        self._display = Display(channel.write, channel.term)

    def read(
        self, prompt: str, history: History | None = None, complete: Complete | None = None, *, echo: bool = True
    ) -> str:
        """One line. Without `echo`, nothing of it is shown or kept.

        Raises EOFError at the end of input, InterruptedByUserError, UsageError where the line is too long,
        DisconnectedError.
        """
        line = Line() if not echo else self._line
        line.clear()
        known = history or History()
        try:
            text = _Reading(self._channel, self._keyboard, self._display, line, prompt, known, complete, echo).run()
        finally:
            line.clear()
        if history is not None:
            history.add(text)
        return text


@dataclass
class _Reading:
    """The reading of one line."""

    _channel: TerminalChannel
    _keyboard: Keyboard
    _display: Display
    _line: Line
    _prompt: str
    _history: History
    _complete: Complete | None
    _echo: bool
    _pasting: bool = False
    _search: _Search | None = None

    def run(self) -> str:
        self._history.rewind()
        self._display.resize(self._channel.size())
        while (key := self._key()) is not TerminalKey.ENTER:
            if self._search is None or self._searched(key):
                self._handle(key)
        self._search = None
        self._show()
        self._display.finish()
        if self._line.overflowed:
            raise UsageError(f"a typed line has at most {MAX_TYPED} octets; nothing of it was run")
        return self._line.text

    def _key(self) -> TerminalKey | Text:
        """The next key; the line is drawn before we wait for one. Raises EOFError."""
        while True:
            if not self._keyboard.waiting:
                self._show()
            try:
                key = self._keyboard.next()
            except EOFError:
                return self._at_end()
            if key is not None:
                return key
            self._display.resize(self._channel.size())

    def _at_end(self) -> TerminalKey:
        """Input that ends within a line ends this line."""
        if self._line.text:
            return TerminalKey.ENTER
        self._display.finish()
        raise EOFError

    def _show(self) -> None:
        prompt = self._prompt if self._search is None else self._search.prompt()
        text, cursor = (self._line.text, self._line.cursor) if self._echo else ("", 0)
        self._display.show(prompt, text, cursor)

    def _handle(self, key: TerminalKey | Text) -> None:
        if isinstance(key, Text):
            self._insert(key.text)
        elif key is TerminalKey.LEAVE_OR_DELETE and not self._line.text:
            self._show()
            self._display.finish()
            raise EOFError
        elif key is TerminalKey.COMPLETE:
            self._tab()
        elif key in _HISTORY_MOVES:
            self._recall(_HISTORY_MOVES[key])
        elif not self._line.edit(key):
            self._control(key)

    def _insert(self, text: str) -> None:
        full = self._line.overflowed
        self._line.insert(text)
        if self._line.overflowed and not full:
            self._display.bell()

    def _control(self, key: TerminalKey) -> None:
        if key is TerminalKey.INTERRUPT:
            self._show()
            self._display.finish("^C")
            raise InterruptedByUserError
        if key is TerminalKey.REDRAW:
            self._display.clear()
        elif key is TerminalKey.SEARCH and self._echo:
            self._search = _Search(self._history, self._line)
        elif key in (TerminalKey.PASTE_BEGIN, TerminalKey.PASTE_END):
            self._pasting = key is TerminalKey.PASTE_BEGIN

    def _recall(self, to: int) -> None:
        found = self._history.move(self._line.text, to) if self._echo else None
        if found is None:
            self._display.bell()
        else:
            self._line.set(found)

    def _tab(self) -> None:
        """Complete the word at the cursor; where that adds nothing, list the choices. A pasted tab is a blank."""
        if self._pasting or not self._echo:
            self._insert("\t" if not self._echo else " ")
            return
        self._show()
        line = self._line
        found = self._complete(line.text[: line.cursor]) if self._complete is not None else None
        if found is None:
            self._display.bell()
        elif found.text != line.text[found.start : line.cursor]:
            line.replace(found.start, line.cursor, found.text)
        elif found.choices:
            self._display.lines(in_columns(found.choices, self._channel.size()[0] or 80))
        else:
            self._display.bell()

    def _searched(self, key: TerminalKey | Text) -> bool:
        """Whether the search has ended, and the key is one for the line."""
        search = self._search
        if search is None or search.take(key):
            return False
        self._search = None
        if key in (TerminalKey.CANCEL, TerminalKey.INTERRUPT):
            self._line.set(*search.before)
            return False
        return True


class _Search:
    """The search for a line of the history that contains a text (Ctrl-R)."""

    def __init__(self, history: History, line: Line) -> None:
        self._history, self._line = history, line
        self.before = (line.text, line.cursor)
        self._text = ""
        self._at: int | None = None
        self._failed = False

    def prompt(self) -> str:
        return f"({'failed ' if self._failed else ''}reverse-i-search)`{shown(self._text)}': "

    def take(self, key: TerminalKey | Text) -> bool:
        """Whether the key belongs to the search."""
        if isinstance(key, Text):
            self._find((self._text + key.text)[:200], None if self._at is None else self._at + 1)
        elif key is TerminalKey.BACKSPACE:
            self._find(self._text[:-1], None)
        elif key is TerminalKey.SEARCH:
            self._find(self._text, self._at)
        else:
            return False
        return True

    def _find(self, text: str, before: int | None) -> None:
        self._text = text
        found = self._history.search(text, before) if text else None
        self._failed = bool(text) and found is None
        if found is not None:
            self._at = found
            line = self._history[found]
            self._line.set(line, line.find(text))


def in_columns(choices: tuple[str, ...], line: int) -> str:
    """The choices, sorted downwards in columns as `ls` does, each line with its end."""
    shown_ones = [shown(one) for one in choices[:_MOST_CHOICES]]
    size = max(map(columns, shown_ones)) + 2
    across = max(1, (line - 1) // size)
    down = -(-len(shown_ones) // across)
    rows = [shown_ones[at::down] for at in range(down)]
    text = "".join("".join(one + " " * (size - columns(one)) for one in row).rstrip() + "\n" for row in rows)
    more = len(choices) - len(shown_ones)
    return text + (f"and {more} more\n" if more else "")


_MOST_LINES = 500
_MOST_CHARACTERS = 256 << 10


class History:
    """Bounded by lines and by characters: the oldest lines go first. The line that is being typed is its last."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._at = 0
        self._unfinished = ""

    def add(self, line: str) -> None:
        """Keep a line, but no empty one, no repetition, and none that begins with a blank. Begin at the end again."""
        if line.strip() and not line[0].isspace() and (not self._lines or line != self._lines[-1]):
            self._lines.append(line)
            while sum(map(len, self._lines)) > _MOST_CHARACTERS:
                self._lines.popleft()
        self._at = len(self._lines)

    def move(self, line: str, to: int) -> str | None:
        """The line at `to` places from where we stand, or None; `line` is kept if it is the unfinished one."""
        at = max(0, min(self._at + to, len(self._lines)))
        if at == self._at:
            return None
        if self._at == len(self._lines):
            self._unfinished = line
        self._at = at
        return self._lines[at] if at < len(self._lines) else self._unfinished

    def rewind(self) -> None:
        """Stand behind the last line."""
        self._at = len(self._lines)

    def search(self, text: str, before: int | None = None) -> int | None:
        """The newest line that contains `text`, older than `before`."""
        places = range(len(self._lines) if before is None else before)
        return next((at for at in reversed(places) if text in self._lines[at]), None)

    def __getitem__(self, at: int) -> str:
        return self._lines[at]
