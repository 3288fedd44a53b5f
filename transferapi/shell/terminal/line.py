"""The line that is being edited: its text, the cursor, and the text that was cut last. It knows of no terminal."""

from __future__ import annotations

import re
from collections.abc import Callable

from .keys import TerminalKey
from .widths import width

#: The most octets of a typed line: each key costs time in its length. Longer ones come through a pipe.
MAX_TYPED = 16 << 10
#: Combining characters and joiners belong to the word before them.
_WORD = re.compile("(?:[^\\W_]|[\u0300-\u036f\u200c\u200d])*")
_BETWEEN, _BLANK, _NO_BLANK = re.compile(r"[\W_]*"), re.compile(r"\s*"), re.compile(r"\S*")


class Line:
    """text: at most MAX_TYPED octets. cursor: an index in it, never between a character and a combining one."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.cut = ""
        #: A text was dropped because the line was full.
        self.overflowed = False
        self._cutting = False

    def set(self, text: str, cursor: int | None = None) -> None:
        self.text = text
        self.cursor = len(text) if cursor is None else cursor
        self._cutting = False

    def clear(self) -> None:
        self.set("")
        self.overflowed = False

    def insert(self, text: str) -> None:
        """Insert at the cursor; a text that does not fit is dropped, and `overflowed` is set."""
        self._cutting = False
        self._replace(self.cursor, self.cursor, text)

    def replace(self, start: int, end: int, text: str) -> None:
        """Put `text` in the place of what stands from `start` to `end`; the cursor stands behind it."""
        self._cutting = False
        self._replace(start, end, text)

    def edit(self, key: TerminalKey) -> bool:
        """Whether the key edits the line or moves its cursor."""
        cutting, self._cutting = self._cutting, False
        if key in _CUTS:
            self._cut(*_CUTS[key](self), append=cutting)
        elif key in _MOVES:
            _MOVES[key](self)
        else:
            return False
        return True

    def _replace(self, start: int, end: int, text: str) -> None:
        if _too_long(self.text, text, end - start):
            self.overflowed = True
            return
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = self._whole(start + len(text))

    def _whole(self, at: int) -> int:
        """The next index that is not before a combining character."""
        while at < len(self.text) and not width(self.text[at]):
            at += 1
        return at

    def _cut(self, start: int, end: int, *, append: bool) -> None:
        """Cuts in a row are yanked together."""
        if start < end:
            piece = self.text[start:end]
            if append:
                piece = self.cut + piece if start == self.cursor else piece + self.cut
            self.cut = piece[:MAX_TYPED]
            self._replace(start, end, "")
        self._cutting = True

    def _before(self) -> int:
        at = max(0, self.cursor - 1)
        while at and not width(self.text[at]):
            at -= 1
        return at

    def _behind(self) -> int:
        return self._whole(min(len(self.text), self.cursor + 1))

    def _skip(self, at: int, step: int, wanted: re.Pattern[str]) -> int:
        """Go on while the character to the left (step -1) or to the right (step 1) is a wanted one."""
        rest = self.text[:at][::-1] if step < 0 else self.text[at:]
        found = wanted.match(rest)
        return at + step * (found.end() if found else 0)

    def _word_left(self) -> int:
        return self._whole(self._skip(self._skip(self.cursor, -1, _BETWEEN), -1, _WORD))

    def _word_right(self) -> int:
        return self._skip(self._skip(self.cursor, 1, _BETWEEN), 1, _WORD)

    def _blank_word_left(self) -> int:
        return self._whole(self._skip(self._skip(self.cursor, -1, _BLANK), -1, _NO_BLANK))

    def _transpose(self) -> None:
        """Exchange the two characters around the cursor, at the end of the line the last two."""
        if self.cursor == len(self.text):
            self.cursor = self._before()
        first, middle, last = self._before(), self.cursor, self._behind()
        if first < middle < last:
            self._replace(first, last, self.text[middle:last] + self.text[first:middle])

    def _transpose_words(self) -> None:
        """Exchange the word before the cursor with the one at or behind it."""
        end = self._skip(self._word_right(), -1, _BETWEEN)
        second = self._skip(self._skip(end, -1, _BETWEEN), -1, _WORD)
        first_end = self._skip(second, -1, _BETWEEN)
        first = self._skip(first_end, -1, _WORD)
        if first < first_end < second:
            text = self.text
            self._replace(first, end, text[second:end] + text[first_end:second] + text[first:first_end])


def _too_long(text: str, more: str, removed: int) -> bool:
    """A character has four octets at most: most lines need no count."""
    if (len(text) + len(more) - removed) * 4 <= MAX_TYPED:
        return False
    return _octets(text) + _octets(more) - removed > MAX_TYPED


def _octets(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _go(place: Callable[[Line], int]) -> Callable[[Line], None]:
    def move(line: Line) -> None:
        line.cursor = place(line)

    return move


def _remove(start: Callable[[Line], int], end: Callable[[Line], int]) -> Callable[[Line], None]:
    def remove(line: Line) -> None:
        first, last = start(line), end(line)
        if first < last:
            line._replace(first, last, "")

    return remove


def _here(line: Line) -> int:
    return line.cursor


_MOVES: dict[TerminalKey, Callable[[Line], None]] = {
    TerminalKey.LEFT: _go(Line._before),
    TerminalKey.RIGHT: _go(Line._behind),
    TerminalKey.HOME: _go(lambda line: 0),
    TerminalKey.END: _go(lambda line: len(line.text)),
    TerminalKey.WORD_LEFT: _go(Line._word_left),
    TerminalKey.WORD_RIGHT: _go(Line._word_right),
    TerminalKey.BACKSPACE: _remove(Line._before, _here),
    TerminalKey.DELETE: _remove(_here, Line._behind),
    TerminalKey.LEAVE_OR_DELETE: _remove(_here, Line._behind),
    TerminalKey.YANK: lambda line: line.insert(line.cut),
    TerminalKey.TRANSPOSE: Line._transpose,
    TerminalKey.TRANSPOSE_WORDS: Line._transpose_words,
}
_CUTS: dict[TerminalKey, Callable[[Line], tuple[int, int]]] = {
    TerminalKey.KILL_TO_END: lambda line: (line.cursor, len(line.text)),
    TerminalKey.KILL_TO_START: lambda line: (0, line.cursor),
    TerminalKey.KILL_WORD_LEFT: lambda line: (line._word_left(), line.cursor),
    TerminalKey.KILL_WORD_RIGHT: lambda line: (line.cursor, line._word_right()),
    TerminalKey.KILL_BLANK_WORD: lambda line: (line._blank_word_left(), line.cursor),
}
