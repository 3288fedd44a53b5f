"""An answer to a form of the account page, besides a sentence."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shown:
    """Values that the page shows only once: (label, value) pairs."""

    title: str
    text: str
    values: list[tuple[str, str]] = field(repr=False)
