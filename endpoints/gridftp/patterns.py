"""Which names match: the patterns of users, and names that some file systems do not distinguish. Pure.

Patterns are of names in listings and filter rules, of paths to delete, and of labels of tasks.

`*` is any number of characters and `?` one. Where classes are allowed (filter rules, paths), `[abc]` and `[a-z]` are
one of these characters, `[!abc]` is one that is none of these; a `]` right after the opening is an ordinary character,
as is a `[` that is never closed. All else is ordinary: there are no braces and no escapes, and a dot at the beginning
has no special meaning.

Matching never backtracks: it takes at most `cost(pattern)` steps for each character of a name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

#: Characters of a pattern, several asterisks in a row counted as one. No file system has longer names.
MAX_PATTERN = 255
#: Components with a wildcard in one path.
MAX_COMPONENTS = 16
#: Steps of one character to search the text after an asterisk.
SEEK = 16

_STARS = re.compile(r"\*+")
_WITH_CLASSES = re.compile(r"\*|\?|\[!?+\]?+[^\]]*\]|.", re.DOTALL)
_NEVER = r"(?!)"


class PatternError(ValueError):
    """A pattern that is too long, or a path with too many patterns. `reason` is a sentence for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def is_pattern(text: str) -> bool:
    """Whether the text contains a wildcard or a class."""
    return any(letter in text for letter in "*?[")


def collapsed(pattern: str) -> str:
    """The same pattern with one asterisk for several in a row. Raises PatternError when it is still too long."""
    short = _STARS.sub("*", pattern)
    if len(short) > MAX_PATTERN:
        raise PatternError(f"A pattern has at most {MAX_PATTERN} characters.")
    return short


def check_path(path: str) -> None:
    """Raises PatternError unless the patterns in the components of a path are within the limits."""
    components = [component for component in path.split("/") if is_pattern(component)]
    if len(components) > MAX_COMPONENTS:
        raise PatternError(f"At most {MAX_COMPONENTS} components of a path are patterns.")
    for component in components:
        collapsed(component)


def cost(pattern: str, *, classes: bool = True) -> int:
    """The maximum of steps, of some 10 ns, for each character of a name: to advance, and to compare a searched text.

    The beginning and the end are compared once.
    """
    sought = list(_runs(pattern, classes))[1:-1]
    return SEEK + max(map(len, sought)) if sought else 1


def translate(pattern: str, *, classes: bool = True) -> str:
    """The pattern as a regex for `fullmatch` with DOTALL.

    A text between two asterisks has a fixed length, and so its leftmost match is as good as any other. It is searched
    once (an atomic group), and never again when the rest does not match.
    """
    head, *inner = _runs(pattern, classes)
    if not inner:
        return _all(head)
    tail = inner.pop()
    middle = "".join(f"(?>.*?{_all(run)})" for run in inner if run)
    # The rest of the name is long enough for the end of the pattern, and ends with it.
    return f"{_all(head)}{middle}(?=.{{{len(tail)}}}).*+(?<={_all(tail)})"


def like(pattern: str) -> str:
    r"""The pattern without classes for SQL's LIKE: `%`, `_`, and a backslash before ordinary ones of these."""
    words = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}
    return "".join(words.get(letter, letter) for letter in _STARS.sub("*", pattern))


def _runs(pattern: str, classes: bool) -> Iterator[list[str]]:
    """The texts between the asterisks, each as a list of parts that match one character."""
    run: list[str] = []
    for part in _WITH_CLASSES.findall(pattern) if classes else pattern:
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
    """The inside of a class: single characters and ranges; a descending range is empty."""
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


# ---- names that some file systems do not distinguish


def folded(name: str) -> str:
    """The one spelling of all names that some file system may take for this one.

    SMB, NTFS, APFS, HFS+, vfat and ext4 with casefold ignore case; HFS+, APFS and some SMB servers ignore the
    difference of composed and decomposed letters (Unicode Standard Annex 15); Windows ignores dots and blanks at the
    end. The result unites what only some of them take for one name: a caller may only become more careful by it.
    """
    name = name.rstrip(". ") or name
    if name.isascii():
        return name.lower()
    # Caseless matching of canonical equivalents (Unicode Standard, section 3.13, D145).
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def folded_path(path: str) -> str:
    """The same for each name of a path."""
    return "/".join(folded(name) if name else "" for name in path.split("/"))
