"""The page about RFC 9700 names tests that there are, and says something of every section."""

from __future__ import annotations

import re

import pytest

from transferapi.config import CHECKOUT

_ROW = re.compile(r"^\| (?P<section>[24]\.[\d.]+) \| (?P<what>[^|]+) \| (?P<covered>[^|]+) \|$")
_NAMED = re.compile(r"`(tests/[^`]+)`")
_REASONS = ("Not ours: ", "As built: ", "Open: ")
#: The sections that concern a server; 2.2 and the attacker model have no demands of their own.
SECTIONS = {"2.1", "2.1.1", "2.1.2", "2.2.1", "2.2.2", "2.3", "2.4", "2.5", "2.6", *(f"4.{n}" for n in range(1, 18))}


def rows() -> dict[str, str]:
    lines = (CHECKOUT / "docs" / "oauth-security.md").read_text().splitlines()
    return {row["section"]: row["covered"] for line in lines if (row := _ROW.match(line))}


def test_every_section_has_a_row() -> None:
    assert set(rows()) == SECTIONS


@pytest.mark.parametrize(("section", "covered"), rows().items())
def test_a_row_names_tests_that_there_are_or_a_reason(section: str, covered: str) -> None:
    named = _NAMED.findall(covered)
    assert named or any(reason in covered for reason in _REASONS)
    for one in named:
        path, _, name = one.partition("::")
        assert re.search(rf"^(?:async )?def {re.escape(name)}\(", (CHECKOUT / path).read_text(), re.MULTILINE), one
