"""Split a line into words as a POSIX shell does (quotes and backslashes), without any expansion.

`~`, `*`, `$`, `;`, `|`, `>`, `&`, `#` and braces stand for themselves: lines reach the service as programs wrote them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import UsageError

#: The most octets of one line.
MAX_LINE = 64 << 10
SINGLE, DOUBLE = "'", '"'
_BLANK = " \t\r\n\v\f"
_SPECIAL = re.compile(f"[{_BLANK}'\"\\\\]")
_IN_DOUBLE = re.compile(r'[\\"$`]')


@dataclass(frozen=True, slots=True)
class Word:
    """A word without its quotes. column: where it begins in the line, from 1."""

    text: str
    column: int


def split(line: str) -> list[Word]:
    """Raises UsageError, which names the column, where a quote is not closed."""
    words: list[Word] = []
    at = 0
    while True:
        while at < len(line) and line[at] in _BLANK:
            at += 1
        if at == len(line):
            return words
        text, end = _word(line, at)
        words.append(Word(text, at + 1))
        at = end


def quote(text: str) -> str:
    """The text as one word of a line: `split` gives it back."""
    return text if text and not _SPECIAL.search(text) else f"'{escape(text, SINGLE)}'"


def escape(text: str, mark: str) -> str:
    """The text as it stands within these quotation marks, or within none where `mark` is empty."""
    if mark == SINGLE:
        return text.replace("'", "'\\''")
    return (_IN_DOUBLE if mark == DOUBLE else _SPECIAL).sub(r"\\\g<0>", text)


def _word(line: str, at: int) -> tuple[str, int]:
    """The word that begins at `at`, and the place behind it."""
    found: list[str] = []
    while at < len(line) and line[at] not in _BLANK:
        if line[at] == "'":
            part, at = _single(line, at)
        elif line[at] == '"':
            part, at = _double(line, at)
        elif line[at] == "\\":
            if at + 1 == len(line):
                raise UsageError(f"column {at + 1}: nothing follows the backslash; write \\\\ for a backslash")
            part, at = line[at + 1], at + 2
        else:
            part, at = line[at], at + 1
        found.append(part)
    return "".join(found), at


def _single(line: str, start: int) -> tuple[str, int]:
    end = line.find("'", start + 1)
    if end < 0:
        raise _unclosed(start, "'", "write \\' for an apostrophe")
    return line[start + 1 : end], end + 1


def _double(line: str, start: int) -> tuple[str, int]:
    found: list[str] = []
    at = start + 1
    while at < len(line) and line[at] != '"':
        if line[at] == "\\" and line[at + 1 : at + 2] in ("\\", '"', "$", "`"):
            at += 1
        found.append(line[at])
        at += 1
    if at >= len(line):
        raise _unclosed(start, '"', 'write \\" for a quotation mark')
    return "".join(found), at + 1


def _unclosed(start: int, quote: str, advice: str) -> UsageError:
    return UsageError(f"column {start + 1}: the quote {quote} is not closed; {advice}")
