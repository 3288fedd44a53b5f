"""signing_policy files, as sites write them and as nobody should."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.gsi.signing_policy import (
    MAX_PATTERNS,
    MAX_POLICY,
    PolicyEntry,
    SigningPolicyFormatError,
    matches,
    parse_policy,
)

RIGHTS = "pos_rights globus CA:sign\n"


def test_the_usual_file_is_understood() -> None:
    text = """# EACL of the Test CA
 access_id_CA      X509    '/O=Grid/OU=Test/CN=Test CA'   # ours

 pos_rights        globus  CA:sign

 cond_subjects     globus  '"/O=Grid/OU=Test/*" "/O=Grid/OU=Hosts/*"'
"""
    assert parse_policy(text) == [
        PolicyEntry("/O=Grid/OU=Test/CN=Test CA", ("/O=Grid/OU=Test/*", "/O=Grid/OU=Hosts/*"))
    ]


def test_a_single_pattern_needs_no_double_quotes() -> None:
    text = f"access_id_CA X509 '/CN=A'\n{RIGHTS}cond_subjects globus '/O=Grid/OU=People and Robots/*'"
    assert parse_policy(text) == [PolicyEntry("/CN=A", ("/O=Grid/OU=People and Robots/*",))]
    text = f"access_id_CA X509 '/CN=A'\n{RIGHTS}cond_subjects globus /O=Grid/*"
    assert parse_policy(text) == [PolicyEntry("/CN=A", ("/O=Grid/*",))]


def test_a_file_may_have_several_authorities_and_several_conditions() -> None:
    text = (
        f"access_id_CA X509 '/CN=A'\r\n{RIGHTS}cond_subjects globus '\"/a\"'\r\ncond_subjects globus '\"/b\"'\r\n"
        f"{RIGHTS}cond_subjects globus '\"/c\"'\r\n"
        f"access_id_CA x509 '/CN=B'\n{RIGHTS}cond_subjects globus '\"/d\"'"
    )
    assert parse_policy(text) == [PolicyEntry("/CN=A", ("/a", "/b", "/c")), PolicyEntry("/CN=B", ("/d",))]


def test_statements_may_lie_on_one_line() -> None:
    assert parse_policy("access_id_CA X509 /CN=A pos_rights globus CA:sign cond_subjects globus /b") == [
        PolicyEntry("/CN=A", ("/b",))
    ]


def test_a_backslash_takes_the_next_character_as_it_is() -> None:
    text = f"access_id_CA X509 '/CN=O\\'Hara \\\\ Sons'\n{RIGHTS}cond_subjects globus '\"/a\"'"
    assert parse_policy(text) == [PolicyEntry("/CN=O'Hara \\ Sons", ("/a",))]


@pytest.mark.parametrize(
    "condition",
    [
        "cond_time globus '\"noon\"'",
        "cond_subjects other '\"/x\"'",
        "neg_rights globus CA:sign",
    ],
)
def test_what_cannot_be_judged_or_is_denied_allows_nobody(condition: str) -> None:
    text = f"access_id_CA X509 '/CN=A'\n{RIGHTS}cond_subjects globus '\"/a\"'\n{condition}"
    assert parse_policy(text) == [PolicyEntry("/CN=A", ())]


def test_rights_without_a_condition_allow_nobody() -> None:
    assert parse_policy(f"access_id_CA X509 '/CN=A'\n{RIGHTS}") == [PolicyEntry("/CN=A", ())]


def test_conditions_of_other_rights_allow_nobody() -> None:
    text = "access_id_CA X509 '/CN=A'\npos_rights globus CA:revoke\ncond_subjects globus '\"/a\"'"
    assert parse_policy(text) == [PolicyEntry("/CN=A", ())]


def test_entries_for_persons_are_no_authorities() -> None:
    text = f"access_id_USER X509 '/CN=A'\n{RIGHTS}cond_subjects globus '\"/a\"'"
    assert parse_policy(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "access_id_CA X509",
        "access_id_CA X509 '/CN=A",
        "access_id_CA X509 '/CN=A\\",
        "grant all everybody",
        f"access_id_CA X509 '/CN=A' {RIGHTS} cond_subjects globus '\"/a'",
        f"access_id_CA X509 '/CN=A' {RIGHTS} cond_subjects globus '/b \"/a\"'",
        "#" * (MAX_POLICY + 1),
        f"access_id_CA X509 '/CN=A' {RIGHTS} cond_subjects globus '" + '"/a" ' * (MAX_PATTERNS + 1) + "'",
    ],
    ids=lambda text: text[:60],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(SigningPolicyFormatError) as raised:
        parse_policy(text)
    assert raised.value.reason


@given(st.text(alphabet="access_idCAX509'\"\\# \n/*=pos_rightsglobuscond", max_size=300))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    try:
        entries = parse_policy(text)
    except SigningPolicyFormatError:
        return
    assert all(isinstance(entry, PolicyEntry) for entry in entries)


NAMES = st.text(alphabet="/=OCN abc", min_size=1, max_size=20).filter(lambda text: text.strip() == text)


@given(NAMES, st.lists(NAMES, min_size=1, max_size=5))
def test_what_is_written_is_read(authority: str, patterns: list[str]) -> None:
    quoted = " ".join(f'"{pattern}"' for pattern in patterns)
    text = f"access_id_CA X509 '{authority}'\n{RIGHTS}cond_subjects globus '{quoted}'\n"
    [entry] = parse_policy(text)
    assert len(entry.patterns) == len(patterns)


@given(st.text(alphabet="ab*?/", max_size=12), st.text(alphabet="ab/", max_size=12))
def test_patterns_match_as_those_of_the_shell_do(pattern: str, subject: str) -> None:
    assert matches(pattern, subject) == bool(re.match(fnmatch.translate(pattern), subject))


def test_letter_case_counts_in_patterns() -> None:
    assert matches("/O=Grid/*", "/O=Grid/CN=A")
    assert not matches("/O=GRID/*", "/O=Grid/CN=A")
    assert not matches("/O=Grid/*", "/O=Grid")


def test_many_stars_come_to_an_end() -> None:
    assert not matches("*a" * 2000 + "b", "a" * 4000)
