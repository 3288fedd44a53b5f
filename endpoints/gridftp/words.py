"""Words of servers and of the operating system, for people: without control characters, without Python, bounded."""

from __future__ import annotations

import os
import re

#: C0 and C1 controls, DEL, line separators, and what turns the direction of a line round (Unicode TR 36).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BLANK = re.compile(r"[\t\r\n]+")
#: How Python writes text and octets, in the words of libraries.
_LITERAL = re.compile(r"(?<!\w)[bB]?'([^']*)'")
#: Octets of an answer that is no answer: enough for the lines in which servers put the cause last.
MAX_SHOWN = 500


def readable(text: str) -> str:
    """The text on one line; what cannot be shown is U+FFFD."""
    return _CONTROL.sub("\ufffd", _BLANK.sub(" ", text)) if _CONTROL.search(text) else text


def shown(octets: bytes, limit: int = MAX_SHOWN) -> str:
    """Octets that somebody sent, in quotes, cut to so many."""
    text = readable(octets[:limit].decode("utf-8", "replace").strip())
    return f'"{text}{" ..." if len(octets) > limit else ""}"'


def quoted(name: str, limit: int = MAX_SHOWN) -> str:
    """A name in quotes, cut to so many characters; octets that are no UTF-8 and control characters are U+FFFD."""
    cut = f"{name[:limit]} ..." if len(name) > limit else name
    text = _CONTROL.sub("\ufffd", cut).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return f'"{text}"'


def of_system(error: BaseException) -> str:
    """What the operating system says, such as "Connection refused", or a library, without Python's notation."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and isinstance(number, int) and number > 0:
        return os.strerror(number)
    return _LITERAL.sub(r'"\1"', readable(str(error))) or type(error).__name__
