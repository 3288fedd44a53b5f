"""Patterns that users write: names in listings and filter rules, paths to delete, labels of tasks. Pure.

`*` is any number of characters and `?` one. Where classes are known besides (filter rules, paths), `[abc]` and `[a-z]`
are one of these, `[!abc]` is one that is none of these; a `]` right after the opening stands for itself, and so does a
`[` that is never closed. All else stands for itself: there are no braces and no escapes, and a dot at the beginning is
a character like any other.

No pattern tries anything again: to match takes at most `cost(pattern)` steps for each character of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: Characters of a pattern, several asterisks in a row counted as one. File systems have no name that is longer.
MAX_PATTERN = 255
#: Components of a path that have a wildcard.
MAX_COMPONENTS = 16
#: Steps of one character for what an asterisk seeks.
SEEK = 16

_STARS = re.compile(r"\*+")
_WITH_CLASSES = re.compile(r"\*|\?|\[!?+\]?+[^\]]*\]|.", re.DOTALL)
_WITHOUT = re.compile(r".", re.DOTALL)
_NEVER = r"(?!)"


class PatternError(ValueError):
    """A pattern that is too long, or a path with too many. `reason` is a sentence for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_pattern(text: str) -> bool:
    """Whether there is something to expand, classes included."""
    return any(letter in text for letter in "*?[")


def collapsed(pattern: str) -> str:
    """The same pattern with one asterisk for several. Raises PatternError when it is too long even so."""
    short = _STARS.sub("*", pattern)
    if len(short) > MAX_PATTERN:
        raise PatternError(f"A pattern has at most {MAX_PATTERN} characters.")
    return short


def check_path(path: str) -> None:
    """Whether the patterns in the components of a path can be expanded. Raises PatternError."""
    components = [component for component in path.split("/") if is_pattern(component)]
    if len(components) > MAX_COMPONENTS:
        raise PatternError(f"At most {MAX_COMPONENTS} components of a path are patterns.")
    for component in components:
        collapsed(component)


def cost(pattern: str, *, classes: bool = True) -> int:
    """Steps of some 10 ns for each character of a name, at most: to go on to it, and to compare the text sought there.

    The beginning and the end are compared once.
    """
    sought = list(_runs(pattern, classes))[1:-1]
    return SEEK + max(map(len, sought)) if sought else 1


def translate(pattern: str, *, classes: bool = True) -> str:
    """The pattern as a regex for `fullmatch` with DOTALL.

    What stands between two asterisks has a fixed length: the leftmost place where it fits is as good as any. Each is
    therefore found once (an atomic group) and never looked for again, however the rest goes.
    """
    head, *inner = _runs(pattern, classes)
    if not inner:
        return _all(head)
    tail = inner.pop()
    middle = "".join(f"(?>.*?{_all(run)})" for run in inner if run)
    # What is left has room for the end, and is that at its end.
    return f"{_all(head)}{middle}(?=.{{{len(tail)}}}).*+(?<={_all(tail)})"


def like(pattern: str) -> str:
    r"""The pattern without classes, as SQL's LIKE has it: `%` and `_`, a backslash before what stands for itself."""
    words = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}
    return "".join(words.get(letter, letter) for letter in _STARS.sub("*", pattern))


def _runs(pattern: str, classes: bool) -> Iterator[list[str]]:
    """What stands between the asterisks, in parts that are one character each."""
    run: list[str] = []
    for part in (_WITH_CLASSES if classes else _WITHOUT).findall(pattern):
        if part == "*":
            yield run
            run = []
        else:
            run.append(part)
    yield run


def _all(run: list[str]) -> str:
    return "".join(map(_one, run))


def _one(part: str) -> str:
    """A regex for exactly one character."""
    if part == "?":
        return "."
    if len(part) == 1:
        return re.escape(part)
    negated = part[1] == "!"
    members = _members(part[2:-1] if negated else part[1:-1])
    if not members:
        return "." if negated else _NEVER
    return f"[{'^' if negated else ''}{members}]"


def _members(text: str) -> str:
    """The inside of a class: single characters and ranges; a range that runs backwards holds nothing."""
    members = ""
    at = 0
    while at < len(text):
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            first, last = text[at], text[at + 2]
            members += f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""
            at += 3
        else:
            members += re.escape(text[at])
            at += 1
    return members
