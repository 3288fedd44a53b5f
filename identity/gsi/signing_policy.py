"""signing_policy files: the names that an authority may certify (the toolkit's EACL).

    access_id_CA  X509    '/O=Grid/CN=Test CA'
    pos_rights    globus  CA:sign
    cond_subjects globus  '"/O=Grid/OU=Test/*" "/O=Grid/OU=Hosts/*"'

White space separates words; ' quotes a word, in which a backslash escapes the next character; # begins a comment up to
the end of the line. A file may have entries for several authorities, and an entry several rights with their conditions.

Standard library and Python 3.8: our GridFTP server uses it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .name_spelling import modern
from .printable import quoted

#: Maximum of characters, entries and patterns of a file: far more than any in use has.
MAX_POLICY = 64 * 1024
MAX_PATTERNS = 1000


class SigningPolicyFormatError(ValueError):
    """A malformed signing policy; `reason` names the place."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PolicyEntry(NamedTuple):
    """An authority, in slash form, and patterns of the subjects that it may sign; no patterns: it may sign none."""

    authority: str
    patterns: tuple[str, ...]


def parse_policy(text: str) -> list[PolicyEntry]:
    """The entries of a signing_policy file, in its order. Raises SigningPolicyFormatError."""
    if len(text) > MAX_POLICY:
        raise SigningPolicyFormatError(f"a policy has at most {MAX_POLICY} characters")
    words = list(_words(text))
    if len(words) % 3:
        raise SigningPolicyFormatError("every statement has three words")
    statements = [(words[at], words[at + 1], words[at + 2]) for at in range(0, len(words), 3)]
    reader = _Reader()
    for what, authority, value in statements:
        reader.take(what, authority, value)
    return reader.done()


class _Reader:
    """Parses statements in order: an access_id begins an entry, a right begins its conditions."""

    def __init__(self) -> None:
        self._entries: list[PolicyEntry] = []
        self._name: str | None = None
        self._patterns: list[str] = []
        self._denied = self._signing = False

    def take(self, what: str, authority: str, value: str) -> None:
        if what.startswith("access_id_"):
            self._close()
            self._name = modern(value) if (what, authority.upper()) == ("access_id_CA", "X509") else None
        elif what in ("pos_rights", "neg_rights"):
            self._signing = what == "pos_rights" and (authority, value) == ("globus", "CA:sign")
            self._denied |= what == "neg_rights" and value == "CA:sign"
        elif what.startswith("cond_"):
            self._condition(what, authority, value)
        else:
            raise SigningPolicyFormatError(f"unknown statement {quoted(what[:40])}")

    def _condition(self, what: str, authority: str, value: str) -> None:
        if not self._signing:
            return
        if (what, authority) != ("cond_subjects", "globus"):
            # A condition of an unknown kind counts as not fulfilled.
            self._denied = True
            return
        self._patterns += map(modern, _patterns(value))
        if len(self._patterns) > MAX_PATTERNS:
            raise SigningPolicyFormatError(f"more than {MAX_PATTERNS} patterns")

    def _close(self) -> None:
        if self._name is not None:
            self._entries.append(PolicyEntry(self._name, () if self._denied else tuple(self._patterns)))
        self._name, self._patterns, self._denied, self._signing = None, [], False, False

    def done(self) -> list[PolicyEntry]:
        self._close()
        return self._entries


def _words(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text[at] == "'":
            word, at = _quoted(text, at + 1)
            yield word
        else:
            start = at
            while at < len(text) and not text[at].isspace():
                at += 1
            yield text[start:at]


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The word up to the closing quote, and the offset after it."""
    word: list[str] = []
    while at < len(text):
        if text[at] == "'":
            return "".join(word), at + 1
        at += text[at] == "\\"
        word.append(text[at : at + 1])
        at += 1
    raise SigningPolicyFormatError("a quote is not closed")


def _patterns(value: str) -> list[str]:
    """ "a" "b" are two patterns; without double quotes the whole is one."""
    if '"' not in value:
        return [value.strip()] if value.strip() else []
    between, inside = value.split('"')[0::2], value.split('"')[1::2]
    if len(between) != len(inside) + 1 or any(part.strip() for part in between):
        raise SigningPolicyFormatError("subjects are given in double quotes")
    return [pattern for pattern in inside if pattern]


def matches(pattern: str, subject: str) -> bool:
    """Whether the pattern, with * (any text) and ? (any character), matches the subject; letter case counts.

    At most len(pattern) * len(subject) steps: only the last asterisk is tried again.
    """
    at = here = 0
    star = retry = -1
    while here < len(subject):
        if at < len(pattern) and pattern[at] == "*":
            star, retry, at = at, here, at + 1
        elif at < len(pattern) and pattern[at] in ("?", subject[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            retry += 1
            at, here = star + 1, retry
        else:
            return False
    return pattern[at:].strip("*") == ""
