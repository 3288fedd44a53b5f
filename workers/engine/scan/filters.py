"""filter_rules: decides by name which entries of a folder are transferred. Pure.

The pattern language is that of `endpoints.gridftp.patterns`, with classes; case matters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from endpoints.gridftp.patterns import translate

#: A rule as `transferapi.tasks.options` has checked it: method, name, and type or None.
Rule = Mapping[str, object]

_NEVER = r"(?!)"


class NameFilter:
    """The first rule that matches a name decides; a name that no rule matches is included."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._folders = _Rules([rule for rule in rules if rule.get("type") != "file"])
        self._files = _Rules([rule for rule in rules if rule.get("type") != "dir"])

    def includes(self, name: str, *, folder: bool) -> bool:
        """Whether this entry is transferred. folder: whether the scan would list it as a folder."""
        return (self._folders if folder else self._files).include(name)


class _Rules:
    """All patterns in one regular expression, with one alternative for each, tried in order."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._included = [True, *(rule["method"] == "include" for rule in rules)]
        alternatives = "|".join(f"({translate(str(rule['name']))})" for rule in rules)
        self._match = re.compile(alternatives or _NEVER, re.DOTALL).fullmatch

    def include(self, name: str) -> bool:
        found = self._match(name)
        return found is None or self._included[found.lastindex or 0]
