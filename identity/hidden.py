"""Octets and text whose value never appears in a `repr`: not in logs, and not in the variables of a traceback."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Hidden:
    """Octets; only `value` reveals them."""

    value: bytes

    def __repr__(self) -> str:
        return "Hidden(***)"

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Text; only `value` reveals it."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__
