"""Findings of the checks of `waybill doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from transferapi.config import Config


class Severity(IntEnum):
    """The number is the exit status of a run with nothing worse."""

    OK = 0
    #: The service works, but not for long, or not all of it.
    WARNING = 1
    #: Something does not work now, or is open to others.
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """text: what is so; do: what to do about it, "" where nothing is to be done. Neither holds a secret."""

    severity: Severity
    text: str
    do: str = ""


#: Looks at one area. It raises nothing that is expected, and has time limits of its own.
Check = Callable[[Config], Iterator[Finding]]


def good(text: str) -> Finding:
    return Finding(Severity.OK, text)


def warning(text: str, do: str) -> Finding:
    return Finding(Severity.WARNING, text, do)


def error(text: str, do: str) -> Finding:
    return Finding(Severity.ERROR, text, do)
