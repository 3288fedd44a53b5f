"""Patterns of users have bounds, and nothing that a server or a user sends takes the square of its length."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.markers import MarkerError, parse_marker
from endpoints.gridftp.patterns import (
    MAX_COMPONENTS,
    MAX_PATTERN,
    PatternError,
    check_path,
    collapsed,
    cost,
    like,
    translate,
)
from endpoints.ssh.keys import SshPrivateKeyError, parse_ssh_key

LETTERS = "ab[]!%_\\.\n"


def matches(pattern: str, text: str) -> bool:
    return re.compile(translate(pattern, classes=False), re.DOTALL).fullmatch(text) is not None


def simply(pattern: str, text: str) -> bool:
    """The reference: one character of the pattern after another, in all ways."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(simply(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and simply(pattern[1:], text[1:])


@given(pattern=st.text(LETTERS + "*?", max_size=9), text=st.text(LETTERS, max_size=7))
def test_without_classes_only_stars_and_question_marks_are_wild(pattern: str, text: str) -> None:
    assert matches(pattern, text) is simply(pattern, text)


@given(pattern=st.text(LETTERS + "*?", max_size=9), text=st.text(LETTERS, max_size=7))
def test_several_stars_are_one(pattern: str, text: str) -> None:
    assert matches(collapsed(pattern), text) is matches(pattern, text)


def test_a_pattern_is_no_longer_than_a_name_can_be() -> None:
    assert collapsed("*" * 4000) == "*"
    assert len(collapsed("*a" * 127 + "*")) == MAX_PATTERN
    with pytest.raises(PatternError, match="at most 255 characters"):
        collapsed("*a" * 128)


def test_a_path_has_a_number_of_patterns_each_with_its_bound() -> None:
    check_path("/plain" * 600 + "/" + "x" * 400 + "/*a" * MAX_COMPONENTS)
    for path in ("/*" * (MAX_COMPONENTS + 1), "/a/" + "?" * 256, "/[" + "a" * 300 + "]"):
        with pytest.raises(PatternError):
            check_path(path)


def test_a_pattern_costs_what_its_stars_seek() -> None:
    assert cost("plain") == cost("*.fits") == cost("a*") == cost("") == 1
    assert cost("*run*") < cost("*ru??*") < cost("*" + "a?" * 100 + "*")


@pytest.mark.parametrize(
    ("pattern", "expected"), [("a*b?", "a%b_"), ("100%_*", r"100\%\_%"), ("\\", "\\\\"), ("[a]", "[a]")]
)
def test_sql_gets_a_pattern_in_which_all_else_stands_for_itself(pattern: str, expected: str) -> None:
    assert like(pattern) == expected


def test_a_marker_with_a_long_line_of_blanks_is_read_like_any_other() -> None:
    """A regex with backtracking would take minutes for it, and stop all threads of a worker."""
    lines = [b"Perf Marker", b" " * 65_000, b" Timestamp:  1.5", b" Stripe Bytes Transferred: 7", b"End."]
    marker = parse_marker(112, lines)
    assert getattr(marker, "bytes") == 7  # noqa: B009 - of one of two kinds
    for hostile in (b"a " * 32_000, b"\t" * 65_000 + b":", b"range " * 10_000):
        with pytest.raises(MarkerError):
            parse_marker(112, [hostile])


def test_a_file_of_many_beginnings_of_keys_is_none() -> None:
    """Each was looked for its end to the end of the file."""
    for kind in ("PRIVATE KEY", "OPENSSH PRIVATE KEY"):
        text = f"-----BEGIN {kind}-----"
        with pytest.raises(SshPrivateKeyError):
            parse_ssh_key(text * (32_768 // len(text)))
