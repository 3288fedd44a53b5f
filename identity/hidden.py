"""Octets and text that do not show themselves: neither in a log, nor in the local variables of a traceback."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class Hidden:
    """Octets for who asks for their `value` only."""

    value: bytes

    def __repr__(self) -> str:
        return "Hidden(***)"

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Text for who asks for its `value` only."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__
