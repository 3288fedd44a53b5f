"""Selects the entries of a folder: by name, and by the rule for symlinks. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import cast

from .filters import NameFilter, Rule


class Links(enum.Enum):
    """recursive_symlinks: left out and counted, made at the destination, or followed."""

    IGNORE = "ignore"
    KEEP = "keep"
    COPY = "copy"


class NameSelection:
    """The options links and filter_rules of a task. They do not apply to the items themselves."""

    def __init__(self, links: Links = Links.IGNORE, rules: Sequence[Rule] = ()) -> None:
        self.links = links
        self._filter = NameFilter(rules) if rules else None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> NameSelection:
        """Read the options of a task by their wire names."""
        rules = cast(Sequence[Rule], options.get("filter_rules") or ())
        return cls(Links(options.get("recursive_symlinks") or "ignore"), rules)

    def includes(self, name: str, *, folder: bool) -> bool:
        """Whether an entry of a folder is selected. folder: whether the scan would list it as a folder."""
        return self._filter is None or self._filter.includes(name, folder=folder)


EVERYTHING = NameSelection()
