"""The filters of SCIM that are understood here: comparisons by `eq`, joined by `and` (RFC 7644, section 3.4.2.2).

    userName eq "alice@example.org" and active eq true

A scan from left to right without recursion or backtracking: its time grows with the length of the text, which has a
bound.
"""

from __future__ import annotations

import json
import re

from .errors import ScimRequestError

#: Characters of a filter, and comparisons in it.
MAX_FILTER, MAX_CONDITIONS = 1000, 10
#: The prefixes of attributes of the core schemas.
_URN = re.compile(r"urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):", re.IGNORECASE)
_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.:$-]*)\s+")
_OPERATOR = re.compile(r"([A-Za-z]+)\s+")
_VALUE = re.compile(r'("(?:[^"\\\x00-\x1f]|\\.)*"|true|false)\s*', re.IGNORECASE)
_AND = re.compile(r"and(?=\s)", re.IGNORECASE)

#: An attribute in small letters without the prefix of its schema, and the value that it must have.
Condition = tuple[str, str | bool]


def parse(text: str) -> list[Condition]:
    """The comparisons; none for "". Raises ScimRequestError (invalidFilter)."""
    if len(text) > MAX_FILTER:
        raise _wrong(f"A filter has at most {MAX_FILTER} characters")
    found: list[Condition] = []
    at = 0
    while text.strip():
        condition, at = _comparison(text, at)
        found.append(condition)
        if at == len(text):
            break
        joined = _AND.match(text, at)
        if joined is None:
            raise _wrong("Comparisons are joined by 'and' only")
        if len(found) == MAX_CONDITIONS:
            raise _wrong(f"A filter has at most {MAX_CONDITIONS} comparisons")
        at = joined.end()
    return found


def attribute_of(name: str) -> str:
    """In small letters, without the prefix of a core schema."""
    return _URN.sub("", name, count=1).lower()


def _comparison(text: str, at: int) -> tuple[Condition, int]:
    name = _NAME.match(text, at)
    operator = _OPERATOR.match(text, name.end()) if name else None
    if name is None or operator is None or operator[1].lower() != "eq":
        raise _wrong('Expected a comparison such as userName eq "alice"')
    value = _VALUE.match(text, operator.end())
    if value is None:
        raise _wrong("The value of a comparison is a string in double quotes, true or false")
    return (attribute_of(name[1]), _value(value[1])), value.end()


def _value(text: str) -> str | bool:
    if text[0] != '"':
        return text.lower() == "true"
    try:
        found = json.loads(text)
    except ValueError:
        raise _wrong("The value of a comparison is a string of JSON") from None
    if not isinstance(found, str) or "\0" in found or any("\ud800" <= letter <= "\udfff" for letter in found):
        raise _wrong("The value of a comparison has a character that no attribute has")
    return found


def _wrong(message: str) -> ScimRequestError:
    return ScimRequestError("invalidFilter", message)
