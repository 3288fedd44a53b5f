"""The syntax of paths, wherever a user names one."""

from __future__ import annotations

import re

#: Octets, as on Linux (PATH_MAX, NAME_MAX).
MAX_PATH, MAX_COMPONENT = 4096, 255
#: C0 and DEL, and surrogates except U+DC80 to U+DCFF, which stand for octets that are not UTF-8.
CONTROL_IN_PATH = re.compile(r"[\x00-\x1f\x7f\ud800-\udc7f\udd00-\udfff]")
_NO_TEXT = re.compile(r"[\ud800-\udfff]")
_SLASHES = re.compile(r"//+")
_PARENT = re.compile(r"(?:^|/)\.\.(?:/|$)")
_SELF = re.compile(r"(?<=/)\./|(?<=/)\.$")


class BadPathError(ValueError):
    """Not a valid path; its text is a sentence that gives the reason."""


def normal(text: str) -> str:
    """The path with single slashes and without "." components. One slash at its end stays: it marks a folder.

    Absolute, or relative to the account's home as `/~/data`, `~/data` or plain `~`. Raises BadPathError.
    """
    if not text:
        raise BadPathError("Expected a path.")
    if CONTROL_IN_PATH.search(text):
        raise BadPathError("A path has no control characters.")
    if text == "~" or text.startswith("~/"):
        text = "/" + text
    if not text.startswith("/"):
        raise BadPathError("A path begins with / or, relative to the home of the account, with /~/.")
    if ".." in text and _PARENT.search(text):
        raise BadPathError('A path has no ".." components.')
    if "//" in text:
        text = _SLASHES.sub("/", text)
    if "/." in text:
        text = _SELF.sub("", text)
    _check_lengths(text)
    return "/~/" if text == "/~" else text


def folder(text: str) -> str:
    """Normalize the path of a folder that is stored as text: UTF-8, with a slash at its end. Raises BadPathError."""
    if _NO_TEXT.search(text):
        raise BadPathError("This path is not UTF-8, and cannot be kept.")
    found = normal(text).rstrip("/") + "/"
    _check_lengths(found)
    return found


def _check_lengths(text: str) -> None:
    if len(text) <= MAX_COMPONENT and text.isascii():
        return
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > MAX_PATH:
        raise BadPathError(f"A path has at most {MAX_PATH} octets.")
    if any(len(component) > MAX_COMPONENT for component in raw.split(b"/")):
        raise BadPathError(f"A name in a path has at most {MAX_COMPONENT} octets.")
