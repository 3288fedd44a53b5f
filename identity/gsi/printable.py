"""Texts of servers, of users and of the operating system, made safe to show: no characters that a terminal acts on.

`inert` and `readable` are the ways out for names: into a terminal, a file, a mail, an event, a log.
"""

from __future__ import annotations

import os
import re

#: Line separators, the marks and controls of text direction (Unicode TR 36), and characters that are not seen but for
#: the joiners of scripts and emoji.
_HIDDEN = "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
#: C0 and C1 controls, DEL, and what is hidden. An octet of C1 that is no UTF-8 is a surrogate (PEP 383): terminals with
#: a character set of 8 bits act on 0x9B as on ESC [ (ECMA-48).
ACTIVE = re.compile(f"[\x00-\x1f\x7f-\x9f\udc80-\udc9f{_HIDDEN}]")
_REPLACED = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_HIDDEN}]")
#: Characters that no text of a user may have: controls, and surrogates, which PostgreSQL refuses. The marks of text
#: direction are allowed, because a text in Hebrew or Arabic may need them; embeddings, overrides and isolates are not.
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: The same for a text of several lines.
FORBIDDEN_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK = re.compile(r"[\t\r\n]+")
#: Python's notation of strings and octets in the texts of libraries.
_LITERAL = re.compile(r"(?<!\w)[bB]?'([^']*)'")
#: Octets that are shown of a malformed answer: enough for servers that put the cause last.
MAX_SHOWN = 500


def inert(text: str, keep: str = "") -> str:
    """The text with an escape in place of each active character, as Bash reads them between `$'` and `'`.

    A character of C1 is `\\u009b`, the octet alone `\\x9b`. keep: of newline, carriage return and tab, those that stay.
    Other octets that are no UTF-8 stay, too: they are names in other character sets, and no terminal acts on them.
    """
    return ACTIVE.sub(lambda found: found[0] if found[0] in keep else escaped(found[0]), text)


def escaped(letter: str) -> str:
    """One character as an escape of Bash."""
    number = ord(letter)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return _ESCAPES.get(letter) or f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def readable(text: str) -> str:
    """The text on one line; active characters, and octets that are no UTF-8, become U+FFFD."""
    return _replaced(_BLANK.sub(" ", text))


def readable_lines(text: str) -> str:
    """`readable` for a text of several lines: newlines and tabs stay."""
    return "\n".join("\t".join(map(_replaced, line.split("\t"))) for line in text.split("\n"))


def _replaced(text: str) -> str:
    return _REPLACED.sub("\ufffd", text)


def shown(octets: bytes, limit: int = MAX_SHOWN) -> str:
    """Received octets in quotes, cut to `most` characters."""
    text = readable(octets[:limit].decode("utf-8", "replace").strip())
    return f'"{text}{" ..." if len(octets) > limit else ""}"'


def quoted(name: str, limit: int = MAX_SHOWN) -> str:
    """A name in quotes, cut to `most` characters; invalid UTF-8 and control characters become U+FFFD."""
    cut = f"{name[:limit]} ..." if len(name) > limit else name
    return f'"{_replaced(cut)}"'


def error_text(error: BaseException) -> str:
    """The text of an error of the operating system ("Connection refused") or a library, without Python's notation."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and isinstance(number, int) and number > 0:
        return os.strerror(number)
    return _LITERAL.sub(r'"\1"', readable(str(error))) or type(error).__name__


def translatable(sentence: str) -> str:
    """Mark a sentence for translation. Django's gettext_noop reads the settings, which may not be loaded yet."""
    return sentence
