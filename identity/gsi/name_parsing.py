"""Written distinguished names, converted to the form of `distinguished_names.slash_name`.

They come in slash form ("/O=Grid/CN=Alice", from people and older front servers) and in the form of RFC 2253
("CN=Alice,O=Grid", from nginx and others by OpenSSL's XN_FLAG_RFC2253: octets beyond ASCII are \\HH).
"""

from __future__ import annotations

import re

from . import der
from .distinguished_names import SHORT, printable

_TYPE = r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+"
#: A slash or plus that begins a member in slash form; others, as in "/CN=host/dtn.example.org", are part of the value.
_SLASH_MEMBER = re.compile(rf"([/+])({_TYPE})=((?:\\.|(?![/+](?:{_TYPE})=)[^\\])*)", re.DOTALL)
_SLASH_ESCAPE = re.compile(r"\\(?:([/+])|x([0-9A-Fa-f]{2}))")
_RFC2253_MEMBER = re.compile(rf'({_TYPE})=((?:\\.|[^\\,+"<>;])*)([,+]|\Z)', re.DOTALL)
_RFC2253_ESCAPE = re.compile(r'\\(?:([ #,+"\\<>;=])|([0-9A-Fa-f]{2}))')

_WORDS = {**{word: word for word in SHORT.values()}, "Email": "emailAddress", "E": "emailAddress", "USERID": "UID"}
_ANY_CASE = {"email": "emailAddress", **{word.lower(): word for word in SHORT.values()}, "uid": "UID"}
_UTF8 = 0x0C

Member = tuple[str, str, bytes]


class BadNameError(ValueError):
    """A text that is no name, or an ambiguous one; `reason` is a sentence without a full stop."""

    def __init__(self, reason: str = 'A subject is written as "/O=Grid/OU=Site/CN=Name"') -> None:
        super().__init__(reason)
        self.reason = reason


def normalized_slash_name(text: str) -> str:
    """A name in slash form, with or without escapes, in the form of `slash_name`. Raises BadNameError."""
    members: list[Member] = []
    place = 0
    while place < len(text):
        found = _SLASH_MEMBER.match(text, place)
        if found is None:
            raise BadNameError
        members.append((found[1], _word(found[2]), _octets(_SLASH_ESCAPE, found[3])))
        place = found.end()
    return _written(members)


def from_rfc2253(text: str) -> str:
    """A name in the form of RFC 2253, the last member first, in slash form. Raises BadNameError."""
    members: list[Member] = []
    place, after = 0, ","
    while after:
        found = _RFC2253_MEMBER.match(text, place)
        if found is None:
            raise BadNameError("This is no name in the form of RFC 2253")
        value = _encoded(found[2]) if found[2].startswith("#") else _octets(_RFC2253_ESCAPE, found[2])
        after, place = found[3], found.end()
        members.append(("+" if after == "+" else "/", _word(found[1]), value))
    return _written(members[::-1])


def _octets(escape: re.Pattern[str], text: str) -> bytes:
    """The octets of a value. Backslashes are refused: in slash form two names would be equal."""
    octets, place = b"", 0
    for hit in escape.finditer(text):
        one = hit[1].encode() if hit[1] else bytes.fromhex(hit[2])
        octets += _plain(text[place : hit.start()]) + _plain(one.decode("latin-1"), "latin-1")
        place = hit.end()
    return octets + _plain(text[place:])


def _plain(text: str, encoding: str = "utf-8") -> bytes:
    if "\\" in text:
        raise BadNameError("A subject with a backslash is ambiguous")
    return text.encode(encoding, "surrogatepass")


def _encoded(text: str) -> bytes:
    """OpenSSL's form of an attribute of an unknown type: # and the DER."""
    try:
        [(_, content)] = der.elements(bytes.fromhex(text[1:]))
    except ValueError:
        raise BadNameError("This is no name in the form of RFC 2253") from None
    if b"\\" in content:
        raise BadNameError("A subject with a backslash is ambiguous")
    return content


def _word(word: str) -> str:
    return _WORDS.get(word) or SHORT.get(word) or _ANY_CASE.get(word.lower(), word)


def _written(members: list[Member]) -> str:
    if not members or members[0][0] != "/" or not all(value for _, _, value in members):
        raise BadNameError
    return "".join(f"{separator}{word}={printable(_UTF8, value)}" for separator, word, value in members)
