"""Tests that share a started server run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import schedule

TESTS = Path(__file__).resolve().parents[1]
JOURNEYS = TESTS / "journeys"


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/unit/gridftp/test_words.py::test_a[x::y]", "tests/unit/gridftp/test_words.py"),
        ("tests/integration/web/test_tls.py::test_a", "tests/integration/web/test_tls.py"),
        ("tests/journeys/box/test_box.py::test_a", "tests/journeys/box/test_box.py"),
        ("tests/journeys/test_sync.py::test_a", "tests/journeys"),
        ("tests/journeys/clients/test_real_cli.py::test_a", "tests/journeys of clients"),
        ("tests/journeys/browser/test_pages.py::test_a", "tests/journeys of clients"),
        ("tests/journeys/test_credentials.py::test_a", "tests/journeys/test_credentials.py"),
        ("tests/journeys/test_make_up.py::test_a", "tests/journeys/test_make_up.py::test_a"),
    ],
)
def test_the_unit_of_a_test(test: str, unit: str) -> None:
    assert schedule.unit_of(test) == unit


def test_the_modules_that_are_named_exist() -> None:
    there = {str(path.relative_to(JOURNEYS)) for path in JOURNEYS.rglob("test_*.py")}
    assert there >= schedule.WITH_ANOTHER_INSTANCE | schedule.EACH_WITH_AN_INSTANCE
    assert {name for name in schedule.LONG if not (TESTS.parent / name).is_file()} == set()


def test_each_journey_with_an_instance_of_its_own_is_named() -> None:
    """Else the instance that the others share would be up beside it, without use."""
    own = {
        str(path.relative_to(JOURNEYS)) for path in JOURNEYS.rglob("test_*.py") if _has_an_instance(path.read_text())
    }
    assert own
    assert own <= schedule.WITH_ANOTHER_INSTANCE | schedule.EACH_WITH_AN_INSTANCE


def _has_an_instance(source: str) -> bool:
    return " with instance(" in source or '"deploy.cli", "up"' in source


class Node:
    """A process, as the scheduler sees it."""

    shutting_down = False

    def __init__(self) -> None:
        self.got: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.got += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_the_longest_units_come_first_and_each_test_comes_once(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    tests = [f"tests/unit/gridftp/test_words.py::test_{number}" for number in range(30)]
    tests += ["tests/faults/test_resume.py::test_a", "tests/faults/test_resume.py::test_b"]
    tests += ["tests/journeys/test_make_up.py::test_a", "tests/journeys/test_sync.py::test_a"]
    node = Node()
    scheduling = schedule.UnitScheduling(pytestconfig)
    scheduling.add_node(node)
    scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    done = 0
    while done < len(node.got):
        scheduling.mark_test_complete(node, node.got[done])
        done += 1
    assert [tests[index].partition("::")[0].rpartition("/")[2] for index in node.got] == [
        "test_make_up.py", "test_sync.py", "test_resume.py", "test_resume.py", *["test_words.py"] * 30
    ]  # fmt: skip
    assert sorted(node.got) == list(range(len(tests)))
    assert node.shutting_down
