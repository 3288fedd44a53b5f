"""The answers to forms of the account page, besides a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shown:
    """Values that the page shows only once: (label, value) pairs."""

    title: str
    text: str
    values: list[tuple[str, str]] = field(repr=False)


@dataclass(frozen=True)
class FieldRefusal:
    """section: the id of a section. field: the name of its field that is wrong; "": none alone."""

    section: str
    text: str
    field: str = ""
