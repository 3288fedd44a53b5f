"""Selects the entries of a folder: by name, and by the rule for symlinks. Pure.

The pattern language of filter_rules is that of `endpoints.gridftp.patterns`, with classes; case matters.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from typing import cast

from endpoints.gridftp.patterns import translate

#: A rule as `transferapi.tasks.options` has checked it: method, name, and type or None.
Rule = Mapping[str, object]

_NEVER = r"(?!)"


class Links(enum.Enum):
    """recursive_symlinks: left out and counted, made at the destination, or followed."""

    IGNORE = "ignore"
    KEEP = "keep"
    COPY = "copy"


class NameSelection:
    """The options recursive_symlinks and filter_rules of a task. They do not apply to the items themselves.

    The first rule that matches a name decides; a name that no rule matches is included.
    """

    def __init__(self, links: Links = Links.IGNORE, rules: Sequence[Rule] = ()) -> None:
        self.links = links
        self._folders = _Rules([rule for rule in rules if rule.get("type") != "file"])
        self._files = _Rules([rule for rule in rules if rule.get("type") != "dir"])

    @classmethod
    def of(cls, options: Mapping[str, object]) -> NameSelection:
        """Read the options of a task by their wire names."""
        rules = cast(Sequence[Rule], options.get("filter_rules") or ())
        return cls(Links(options.get("recursive_symlinks") or "ignore"), rules)

    def includes(self, name: str, *, folder: bool) -> bool:
        """Whether an entry of a folder is selected. folder: whether the scan would list it as a folder."""
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


EVERYTHING = NameSelection()
