"""Texts of servers and of the operating system, made safe to show: no control characters, limited length."""

from __future__ import annotations

import os
import re

#: C0 and C1 controls, DEL, line separators, and the controls of text direction (Unicode TR 36).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
#: Characters that no text of a user may have: controls, and surrogates, which PostgreSQL refuses.
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
#: The same for a text of several lines.
FORBIDDEN_IN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_BLANK = re.compile(r"[\t\r\n]+")
#: Python's notation of strings and octets in the texts of libraries.
_LITERAL = re.compile(r"(?<!\w)[bB]?'([^']*)'")
#: Octets that are shown of a malformed answer: enough for servers that put the cause last.
MAX_SHOWN = 500


def readable(text: str) -> str:
    """The text on one line; unprintable characters become U+FFFD."""
    return _CONTROL.sub("\ufffd", _BLANK.sub(" ", text)) if _CONTROL.search(text) else text


def shown(octets: bytes, limit: int = MAX_SHOWN) -> str:
    """Received octets in quotes, cut to `most` characters."""
    text = readable(octets[:limit].decode("utf-8", "replace").strip())
    return f'"{text}{" ..." if len(octets) > limit else ""}"'


def quoted(name: str, limit: int = MAX_SHOWN) -> str:
    """A name in quotes, cut to `most` characters; invalid UTF-8 and control characters become U+FFFD."""
    cut = f"{name[:limit]} ..." if len(name) > limit else name
    text = _CONTROL.sub("\ufffd", cut).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return f'"{text}"'


def error_text(error: BaseException) -> str:
    """The text of an error of the operating system ("Connection refused") or a library, without Python's notation."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and isinstance(number, int) and number > 0:
        return os.strerror(number)
    return _LITERAL.sub(r'"\1"', readable(str(error))) or type(error).__name__
