"""How a variable of the environment is declared, at a field of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple, TypeVar, cast

from identity.hidden import Secret

T = TypeVar("T")


class Variable(NamedTuple):
    name: str
    parse: Callable[[str], object]
    default: str
    #: For users, in the help and where a variable is unknown; "": not listed by itself.
    meaning: str
    is_secret: bool = False


def variable(name: str, parse: Callable[[str], T], default: str, meaning: str = "") -> T:
    """Declare the variable of a field of `Config`, which has the type that the parser returns."""
    return cast(T, field(metadata={"variable": Variable(name, parse, default, meaning)}))


def secret(name: str, check: Callable[[str], object], meaning: str) -> Secret | None:
    """Declare a secret, which may also come from a file; check: raises ValueError for a wrong one."""
    declared = Variable(name, check, "", meaning, is_secret=True)
    return cast(Secret | None, field(metadata={"variable": declared}))
