"""The page about ASVS names tests and documents that there are, and says something of every requirement."""

from __future__ import annotations

import re

import pytest

from transferapi.config import CHECKOUT

#: Requirements of levels 1 and 2 in the chapters V1 to V16 of ASVS 5.0.0.
REQUIREMENTS = 246
_ROW = re.compile(r"^\| (?P<number>\d+\.\d+\.\d+) \| [12] \| (?P<what>[^|]+) \| (?P<covered>[^|]+) \|$")
_NAMED = re.compile(r"`((?:tests|docs)/[^`]+|[A-Z]+\.md)`")
_REASONS = ("Not ours: ", "As built: ", "Open: ")


def rows() -> dict[str, str]:
    lines = (CHECKOUT / "docs" / "asvs.md").read_text().splitlines()
    found = [row for line in lines if (row := _ROW.match(line))]
    assert len({row["number"] for row in found}) == len(found), "a number comes twice"
    return {row["number"]: row["covered"] for row in found}


def test_every_requirement_has_a_row() -> None:
    assert len(rows()) == REQUIREMENTS


@pytest.mark.parametrize(("number", "covered"), rows().items())
def test_a_row_names_what_there_is_or_a_reason(number: str, covered: str) -> None:
    named = _NAMED.findall(covered)
    assert named or any(reason in covered for reason in _REASONS)
    for one in named:
        path, _, name = one.partition("::")
        text = (CHECKOUT / path).read_text()
        assert not path.startswith("tests/") or re.search(rf"^(?:async )?def {re.escape(name)}\(", text, re.MULTILINE)
