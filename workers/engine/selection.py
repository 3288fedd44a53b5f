"""What of a folder the user wants: by name, and what about symlinks. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import cast

from .filters import Filter, Rule


class Links(enum.Enum):
    """recursive_symlinks: left out and counted, made anew at the destination, or followed."""

    IGNORE = "ignore"
    KEEP = "keep"
    COPY = "copy"


class Selection:
    """links and filter_rules of a task. The items themselves are always wanted, and their own links followed."""

    def __init__(self, links: Links = Links.IGNORE, rules: Sequence[Rule] = ()) -> None:
        self.links = links
        self._filter = Filter(rules) if rules else None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Selection:
        """From the options of a task by their wire names."""
        rules = cast(Sequence[Rule], options.get("filter_rules") or ())
        return cls(Links(options.get("recursive_symlinks") or "ignore"), rules)

    def includes(self, name: str, *, folder: bool) -> bool:
        """Whether an entry of a folder is wanted. folder: it is one that would be walked through."""
        return self._filter is None or self._filter.includes(name, folder=folder)


EVERYTHING = Selection()
