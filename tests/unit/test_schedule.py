"""Tests that share a started server run in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import durations, schedule

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


def test_the_newest_measurement_of_a_module_counts_where_most_of_its_tests_ran() -> None:
    here, other = "tests/unit/test_schedule.py", "tests/unit/test_floors.py"
    before = {here: (20.0, 10), other: (1.0, 2), "tests/gone.py": (1.0, 1)}
    run = {here: (9.0, 4), other: (3.0, 3)}
    assert durations.merged(before, run) == {here: (20.0, 10), other: (3.0, 3)}
    assert durations.merged(before, {here: (9.0, 5)})[here] == (9.0, 5)


class Reported:
    """A config with a cache, as the recorder sees it."""

    def __init__(self) -> None:
        self.cache = self
        self.kept: dict[str, durations.Measured] = {}

    def get(self, key: str, default: durations.Measured) -> durations.Measured:
        return self.kept.get(key, default)

    def set(self, key: str, value: durations.Measured) -> None:
        self.kept[key] = value


def test_what_a_run_measures_is_what_the_next_one_plans_by(pytestconfig: pytest.Config) -> None:
    config = Reported()
    recorder = durations.Recorder(config)  # type: ignore[arg-type]
    name = "tests/unit/test_schedule.py"
    for when, seconds in (("setup", 5.0), ("call", 1.0), ("teardown", 0.5), ("setup", 0.0), ("call", 1.5)):
        report = pytest.TestReport(f"{name}::test_a[x]", ("", 0, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]
        recorder.pytest_runtest_logreport(report)
    assert durations.seconds_by_module(config).get(name) is None  # type: ignore[arg-type]
    recorder.pytest_sessionfinish()
    assert durations.seconds_by_module(config)[name] == 4.0  # type: ignore[arg-type]


def test_the_longest_units_come_first_and_each_test_comes_once(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    seconds = {
        "tests/journeys/test_make_up.py": 25.0,
        "tests/journeys/test_sync.py": 4.0,
        "tests/faults/test_resume.py": 0.4,
    }
    monkeypatch.setattr(schedule, "seconds_by_module", lambda config: seconds)
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
