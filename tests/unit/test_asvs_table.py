"""The page about ASVS names tests and documents that there are, and says something of every requirement."""

from __future__ import annotations

import re

from transferapi.config import CHECKOUT

#: Requirements of levels 1 and 2 in the chapters V1 to V16 of ASVS 5.0.0.
REQUIREMENTS = 246
_ROW = re.compile(r"^\| (?P<number>\d+\.\d+\.\d+) \| [12] \| (?P<what>[^|]+) \| (?P<covered>[^|]+) \|$")
_NAMED = re.compile(r"`((?:tests|docs)/[^`]+|[A-Z]+\.md)`")
#: Of the table of attacks: the surface, what was tried, what holds it.
_ATTACK = re.compile(r"^\| (?P<surface>[^|]+) \| (?P<tried>[^|]+) \| (?P<covered>`tests/[^|]+|As built: [^|]+) \|$")
_REASONS = ("Not ours: ", "As built: ", "Open: ")


def rows() -> dict[str, str]:
    lines = (CHECKOUT / "docs" / "asvs.md").read_text().splitlines()
    found = [row for line in lines if (row := _ROW.match(line))]
    assert len({row["number"] for row in found}) == len(found), "a number comes twice"
    return {row["number"]: row["covered"] for row in found}


def attacks() -> list[str]:
    text = (CHECKOUT / "docs" / "asvs.md").read_text()
    lines = text.partition("## Attacks by surface")[2].splitlines()
    return [row["covered"] for line in lines if (row := _ATTACK.match(line))]


def test_every_requirement_has_a_row() -> None:
    assert len(rows()) == REQUIREMENTS


def test_a_row_names_what_there_is_or_a_reason() -> None:
    empty = [number for number, covered in rows().items() if not (_NAMED.findall(covered) or _has_reason(covered))]
    assert empty == []
    for covered in rows().values():
        assert_named_are_there(covered)


def _has_reason(covered: str) -> bool:
    return any(reason in covered for reason in _REASONS)


def test_the_table_of_attacks_names_tests_that_there_are() -> None:
    lines = (CHECKOUT / "docs" / "asvs.md").read_text().partition("## Attacks by surface")[2].splitlines()
    assert len(attacks()) == sum(line.startswith("| ") for line in lines) - 1, "a row is not of the form of the others"
    for covered in attacks():
        assert_named_are_there(covered)


def assert_named_are_there(covered: str) -> None:
    for one in _NAMED.findall(covered):
        path, _, name = one.partition("::")
        text = (CHECKOUT / path).read_text()
        is_there = re.search(rf"^(?:async )?def {re.escape(name)}\(", text, re.MULTILINE)
        assert not path.startswith("tests/") or is_there, one
