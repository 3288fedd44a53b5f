"""Which tests run in one process when pytest-xdist distributes them, and in which order.

A unit is a module, so that its fixtures are made once, and so that little is said between the processes: 14,000 empty
tests take 50 s of processor with a unit for each of them, and 20 s in units of 60. The longest units come first, so
that all processes end at about the same time.

The marker `xdist_group` is of no use: with pytest 9.2 and pytest-xdist 3.8 it is ignored silently
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.durations import SHORT, seconds_by_module

JOURNEYS = "tests/journeys"
#: Journeys that start an instance for each test: a unit each.
EACH_WITH_AN_INSTANCE = {"test_make_up.py", "test_vault_key.py", "test_backup.py"}
#: Journeys that start an instance, or none, for the module.
WITH_ANOTHER_INSTANCE = {
    "box/test_activation.py",
    "box/test_box.py",
    "browser/test_account.py",
    "browser/test_people.py",
    "browser/test_providers.py",
    "browser/test_sign_in.py",
    "test_credentials.py",
    "test_nat.py",
    "test_traces.py",
}
#: Journeys of programs and browsers. They and the others are two units, each with the shared instance of its process.
OF_CLIENTS = ("browser/", "clients/")
CLIENTS = "tests/journeys of clients"


def unit_of(test: str) -> str:
    """The name of the unit that this test belongs to: its module, journeys with one instance, or itself."""
    module = test.partition("::")[0]
    name = module.removeprefix(f"{JOURNEYS}/")
    if name == module or name in WITH_ANOTHER_INSTANCE:
        return module
    if name in EACH_WITH_AN_INSTANCE:
        return test
    return CLIENTS if name.startswith(OF_CLIENTS) else JOURNEYS


def seconds_of(tests: Iterable[str], by_module: Mapping[str, float]) -> float:
    """How long these tests take, by the seconds of a test of each module."""
    return sum(by_module.get(test.partition("::")[0], SHORT) for test in tests)


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out one unit after the other, the longest first."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._by_module = seconds_by_module(config)
        self._seconds: dict[str, float] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        if not self._seconds:
            self._seconds = {unit: seconds_of(tests, self._by_module) for unit, tests in self.workqueue.items()}
        longest = max(self.workqueue, key=self._seconds.__getitem__)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
