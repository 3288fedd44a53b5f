"""What a label, a deadline and a path must look like, wherever a user gives one. -> RequestError"""

from __future__ import annotations

import re
from datetime import datetime

from .errors import RequestError

MAX_LABEL = 128
#: Octets, as on Linux (PATH_MAX, NAME_MAX).
MAX_PATH, MAX_COMPONENT = 4096, 255
#: C0 and DEL; surrogates stand for octets that are not UTF-8 and may be in a path (U+DC80 to U+DCFF), no others.
#: Hexadecimal digits of the checksums that files can be compared by.
CHECKSUMS = {
    "MD5": 32, "SHA1": 40, "SHA224": 56, "SHA256": 64, "SHA384": 96, "SHA512": 128,
    "ADLER32": 8, "CRC32": 8, "CRC32C": 8,
}  # fmt: skip
_HEXADECIMAL = re.compile(r"[0-9a-f]+")
_NO_LABEL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_NO_PATH = re.compile(r"[\x00-\x1f\x7f\ud800-\udc7f\udd00-\udfff]")
_SLASHES = re.compile(r"//+")
_PARENT = re.compile(r"(?:^|/)\.\.(?:/|$)")
_SELF = re.compile(r"(?<=/)\./|(?<=/)\.$")


def label(text: str | None) -> str | None:
    """A label, or None. Empty is none."""
    if not text:
        return None
    if len(text) > MAX_LABEL:
        raise RequestError("label", f"A label has at most {MAX_LABEL} characters.")
    if _NO_LABEL.search(text) or text != text.strip():
        raise RequestError("label", "A label is one line, without blanks at its ends.")
    return text


def deadline(moment: datetime, now: datetime) -> datetime:
    """A moment in the future."""
    if moment.tzinfo is None:
        raise RequestError("deadline", "A deadline has a time zone.")
    if moment <= now:
        raise RequestError("deadline", "The deadline has passed already.")
    return moment


def algorithm(name: str, field: str) -> str:
    """A checksum algorithm in any case of letters, as servers name it."""
    if name.upper() not in CHECKSUMS:
        raise RequestError(field, f"One of {', '.join(CHECKSUMS)} is wanted here.")
    return name.upper()


def checksum(value: str, algorithm: str, field: str) -> str:
    """A checksum of this algorithm, in hexadecimal; in lower case then."""
    digits = value.lower()
    if len(digits) != CHECKSUMS[algorithm] or not _HEXADECIMAL.fullmatch(digits):
        raise RequestError(field, f"{algorithm} is {CHECKSUMS[algorithm]} hexadecimal digits.")
    return digits


def path(text: str, field: str) -> str:
    """The path with single slashes and without "." components. One slash at its end stays: a folder is meant.

    Absolute, or relative to the account's home: `/~/data`, `~/data` and plain `~` mean that, too.
    """
    if not text:
        raise RequestError(field, "A path is wanted here.")
    if _NO_PATH.search(text):
        raise RequestError(field, "A path has no control characters.")
    if text == "~" or text.startswith("~/"):
        text = "/" + text
    if not text.startswith("/"):
        raise RequestError(field, "A path begins with / or, relative to the home of the account, with /~/.")
    if ".." in text and _PARENT.search(text):
        raise RequestError(field, 'A path has no ".." components.')
    if "//" in text:
        text = _SLASHES.sub("/", text)
    if "/." in text:
        text = _SELF.sub("", text)
    _check_lengths(text, field)
    return "/~/" if text == "/~" else text


def _check_lengths(text: str, field: str) -> None:
    if len(text) <= MAX_COMPONENT and text.isascii():
        return
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > MAX_PATH:
        raise RequestError(field, f"A path has at most {MAX_PATH} octets.")
    if any(len(component) > MAX_COMPONENT for component in raw.split(b"/")):
        raise RequestError(field, f"A name in a path has at most {MAX_COMPONENT} octets.")
