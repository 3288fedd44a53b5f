"""The columns that characters take on a terminal, and where a text ends on rows of a given width."""

from __future__ import annotations

from functools import lru_cache

from wcwidth import wcwidth

#: Shown instead of octets that are no UTF-8, and of characters that would hide or reorder others.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


@lru_cache(maxsize=4096)
def _shown(letter: str) -> str:
    return letter if letter.isprintable() or letter in _JOINERS else REPLACEMENT


def shown(text: str) -> str:
    """The text as it is shown: one character for each, none of which controls the terminal or changes another text."""
    if text.isascii() and text.isprintable():
        return text
    first = _shown(text[0]) if width(text[0]) else REPLACEMENT
    return first + "".join(map(_shown, text[1:]))


@lru_cache(maxsize=4096)
def width(letter: str) -> int:
    """Of the character as it is shown: 0 for combining ones, 2 for East Asian wide ones and for most emoji."""
    return max(0, wcwidth(_shown(letter)))


def columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(width, text))


def end(text: str, line: int) -> tuple[int, int]:
    """Row and column behind the text, which begins at the left of a window of `line` columns.

    The column is `line` where the text fills its row: the terminal goes to the next row with the next character. A
    wide character that does not fit into the row begins the next one.
    """
    if text.isascii():
        row, column = divmod(len(text), line)
        return (row - 1, line) if row and not column else (row, column)
    row = column = 0
    for size in map(width, text):
        if column + size > line:
            row, column = row + 1, 0
        column += size
    return row, column
