"""filter_rules: which names of a folder are transferred, and which are passed over. Pure.

The language of a pattern: `*` any number of characters, `?` one, `[abc]` and `[a-z]` one of these, `[!abc]` one that is
none of these; a `]` right after the opening stands for itself, and so does a `[` that is never closed. All else stands
for itself: there are no braces and no escapes, case matters, and a dot at the beginning is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

#: A rule as `transferapi.tasks.options` has checked it: method, name, and type or None.
Rule = Mapping[str, object]

_PARTS = re.compile(r"\*+|\?|\[!?+\]?+[^\]]*\]|.", re.DOTALL)
_NEVER = r"(?!)"


class Filter:
    """The first rule that matches a name decides; what no rule matches is included."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._folders = _Rules([rule for rule in rules if rule.get("type") != "file"])
        self._files = _Rules([rule for rule in rules if rule.get("type") != "dir"])

    def includes(self, name: str, *, folder: bool) -> bool:
        """Whether this entry is transferred. folder: whether it is one that would be walked through."""
        return (self._folders if folder else self._files).include(name)


class _Rules:
    """All patterns in one: an alternative each, tried in order by the regex machine, which is faster than we are."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._included = [True, *(rule["method"] == "include" for rule in rules)]
        alternatives = "|".join(f"({translate(str(rule['name']))})" for rule in rules)
        self._match = re.compile(alternatives or _NEVER, re.DOTALL).fullmatch

    def include(self, name: str) -> bool:
        found = self._match(name)
        return found is None or self._included[found.lastindex or 0]


def translate(pattern: str) -> str:
    """The pattern as a regex for `fullmatch` with DOTALL. Never slower than length of name times length of pattern.

    What stands between two asterisks has a fixed length: the leftmost place where it fits is as good as any. Each is
    therefore found once (an atomic group) and never looked for again, however the rest goes.
    """
    head, *inner = _runs(pattern)
    if not inner:
        return head
    tail = inner.pop()
    return head + "".join(f"(?>.*?{run})" for run in inner if run) + ".*" + tail


def _runs(pattern: str) -> Iterator[str]:
    """What stands between the asterisks, as regexes of a fixed length."""
    run = ""
    for part in _PARTS.findall(pattern):
        if part[0] == "*":
            yield run
            run = ""
        else:
            run += _one(part)
    yield run


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
