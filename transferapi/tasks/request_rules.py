"""Checks of labels, deadlines, checksums and paths in requests of users. Each raises RequestError."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from django.conf import settings

from endpoints import paths
from endpoints.gridftp.patterns import PatternError, check_path
from endpoints.gridftp.streams.digest import DIGITS
from endpoints.paths import BadPathError
from identity.gsi.printable import FORBIDDEN

from .errors import RequestError

MAX_LABEL = 128
_HEXADECIMAL = re.compile(r"[0-9a-f]+")


def label(text: str | None) -> str | None:
    """The label, or None where it is empty."""
    if not text:
        return None
    if len(text) > MAX_LABEL:
        raise RequestError("label", f"A label has at most {MAX_LABEL} characters.")
    if FORBIDDEN.search(text) or text != text.strip():
        raise RequestError("label", "A label is one line, without blanks at its ends.")
    return text


def deadline(moment: datetime, now: datetime) -> datetime:
    """A time in the future."""
    if moment.tzinfo is None:
        raise RequestError("deadline", "A deadline has a time zone.")
    if moment <= now:
        raise RequestError("deadline", "The deadline has passed already.")
    return moment


def algorithm(name: str, field: str) -> str:
    """The algorithm as servers name it, from any case of letters."""
    if name.upper() not in DIGITS:
        raise RequestError(field, f"Expected one of {', '.join(DIGITS)}.")
    return name.upper()


def checksum(value: str, algorithm: str, field: str) -> str:
    """A hexadecimal checksum of this algorithm, in lower case."""
    digits = value.lower()
    if len(digits) != DIGITS[algorithm] or not _HEXADECIMAL.fullmatch(digits):
        raise RequestError(field, f"{algorithm} is {DIGITS[algorithm]} hexadecimal digits.")
    return digits


def path(text: str, field: str) -> str:
    """The path in its canonical spelling (`endpoints.paths.normal`)."""
    try:
        return paths.normal(text)
    except BadPathError as error:
        raise RequestError(field, str(error)) from None


def patterns(texts: Iterable[str]) -> None:
    """Check that paths of DATA that are patterns can be expanded."""
    for number, text in enumerate(texts):
        try:
            check_path(text)
        except PatternError as error:
            raise RequestError(f"DATA[{number}].path", error.reason) from None


def too_many_items() -> str:
    return f"A submission has at most {settings.LIMITS.items} items on this service (WAYBILL_MAX_ITEMS)."


def too_many_lines() -> str:
    return f"A list has at most {settings.LIMITS.listed_items} lines on this service (WAYBILL_MAX_LISTED_ITEMS)."
