"""Tests that share a started server run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import schedule

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/unit/test_words.py::test_a[x::y]", "tests/unit/test_words.py::test_a[x::y]"),
        ("tests/integration/test_tls.py::test_a", "tests/integration/test_tls.py"),
        ("tests/journeys/test_sync.py::test_a", "tests/journeys"),
        ("tests/journeys/test_credentials.py::test_a", "tests/journeys/test_credentials.py"),
        ("tests/journeys/test_make_up.py::test_a", "tests/journeys/test_make_up.py::test_a"),
    ],
)
def test_the_unit_of_a_test(test: str, unit: str) -> None:
    assert schedule.unit_of(test) == unit


def test_the_modules_that_are_named_exist() -> None:
    there = {path.name for path in TESTS.rglob("test_*.py")}
    assert there >= schedule.WITH_A_SERVER | schedule.EACH_WITH_AN_INSTANCE


def test_each_module_that_starts_a_web_server_once_is_named() -> None:
    starts = {path.name for path in TESTS.glob("integration/test_*.py") if _starts_once(path.read_text())}
    assert starts
    assert starts <= schedule.WITH_A_SERVER


def _starts_once(source: str) -> bool:
    return "web_server" in source and 'scope="module"' in source
