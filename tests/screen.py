"""A terminal of the kind of VT100, as far as the shell's editor needs it: it keeps the characters of its screen.

It wraps late, as xterm does: behind the last column the cursor waits for the next character. An escape sequence that it
does not know is an error.
"""

from __future__ import annotations

import codecs
import re

from transferapi.shell.terminal.widths import width

_SEQUENCE = re.compile(r"\x1b\[(\d*)([ABCDJKH])")


class Screen:
    """rows: lists of cells; the second cell of a wide character is empty. plain: escape sequences are errors."""

    def __init__(self, columns: int, rows: int, *, plain: bool = False) -> None:
        self.columns, self.height, self.plain = columns, rows, plain
        self.rows: list[list[str]] = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.scrolled: list[str] = []
        self.bells = 0
        self._late = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            at = self._escape(text, at) if text[at] == "\x1b" else self._letter(text[at], at)

    def lines(self) -> list[str]:
        """The rows from the first on, without blanks at their ends and without empty rows at the end."""
        found = [*self.scrolled, *("".join(row).rstrip() for row in self.rows)]
        while found and not found[-1]:
            found.pop()
        return found

    def text(self, first: int) -> str:
        """All characters from a row on."""
        return "".join("".join(row) for row in self.rows[first:]).rstrip()

    def _letter(self, letter: str, at: int) -> int:
        if letter == "\r":
            self.column, self._late = 0, False
        elif letter == "\n":
            self._down()
        elif letter == "\b":
            self.column, self._late = max(0, self.column - 1), False
        elif letter == "\a":
            self.bells += 1
        else:
            assert letter.isprintable() or not width(letter), f"a control character: {letter!r}"
            self._put(letter)
        return at + 1

    def _put(self, letter: str) -> None:
        size = width(letter)
        if not size:
            before = self.columns - 1 if self._late else self.column - 1
            while before > 0 and not self.rows[self.row][before]:
                before -= 1
            if before >= 0:
                self.rows[self.row][before] += letter
            return
        if self._late or self.column + size > self.columns:
            self.column, self._late = 0, False
            self._down()
        for cell in range(size):
            self._erase(self.column + cell)
            self.rows[self.row][self.column + cell] = letter if not cell else ""
        self.column += size
        if self.column >= self.columns:
            self.column, self._late = self.columns - 1, True

    def _erase(self, column: int) -> None:
        """A wide character of which one half is written over is gone."""
        row = self.rows[self.row]
        if row[column] == "" and column:
            row[column - 1] = " "
        if column + 1 < self.columns and row[column + 1] == "":
            row[column + 1] = " "
        row[column] = " "

    def _down(self) -> None:
        if self.row + 1 < self.height:
            self.row += 1
            return
        self.scrolled.append("".join(self.rows.pop(0)).rstrip())
        self.rows.append([" "] * self.columns)

    def _escape(self, text: str, at: int) -> int:
        found = _SEQUENCE.match(text, at)
        assert found is not None, f"an unknown sequence: {text[at : at + 8]!r}"
        assert not self.plain, f"a sequence for a plain terminal: {found.group()!r}"
        count, final = int(found.group(1) or 1), found.group(2)
        self._late = False
        if final == "A":
            self.row = max(0, self.row - count)
        elif final == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif final == "J":
            self._clear(found.group(1))
        elif final == "H":
            self.row = self.column = 0
        else:
            raise AssertionError(f"not expected: {found.group()!r}")
        return found.end()

    def _clear(self, which: str) -> None:
        first = 0 if which == "2" else self.row + 1
        for row in range(first, self.height):
            self.rows[row] = [" "] * self.columns
        if which != "2":
            for column in range(self.column, self.columns):
                self._erase(column)
