"""How long the tests of a module take, as the last runs have measured it.

Each run keeps its measurements in the cache of pytest. A fresh clone begins with the table in `durations.json`, which
`python -m tests.durations` writes from that cache.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from transferapi.config import CHECKOUT

#: Seconds of a test, by module.
TABLE = Path(__file__).with_name("durations.json")
#: Where pytest's cache has the seconds and the number of tests of each module.
KEY = "waybill/durations"
CACHED = CHECKOUT / ".pytest_cache" / "v" / KEY
#: Seconds of a test whose module no run has measured, or that takes too little to be in the table.
SHORT = 0.02
#: Modules that take less seconds are not in the table.
IN_TABLE = 2.0
Measured = dict[str, tuple[float, int]]


def seconds_by_module(config: pytest.Config) -> Mapping[str, float]:
    """Seconds of a test of each module: the committed table, and what runs of this machine have measured."""
    table: dict[str, float] = json.loads(TABLE.read_text())
    return table | {name: seconds / tests for name, (seconds, tests) in cached(config).items()}


def cached(config: pytest.Config) -> Measured:
    cache = getattr(config, "cache", None)
    found = cache.get(KEY, {}) if cache is not None else {}
    return {name: (seconds, tests) for name, (seconds, tests) in found.items()}


class Recorder:
    """A plugin that measures the modules of a run, in the process that gets all reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: dict[str, float] = defaultdict(float)
        self._tests: dict[str, int] = defaultdict(int)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        module = report.nodeid.partition("::")[0]
        self._seconds[module] += report.duration
        self._tests[module] += report.when == "setup"

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self._config, "cache", None)
        if cache is not None and self._tests:
            run = {name: (round(self._seconds[name], 3), tests) for name, tests in self._tests.items() if tests}
            cache.set(KEY, merged(cached(self._config), run))


def merged(before: Measured, run: Measured) -> Measured:
    """The newest measurement of each module that exists.

    A run of few of its tests does not count: the first test of a run starts the servers for all that follow.
    """
    newer = {
        name: (seconds, tests) for name, (seconds, tests) in run.items() if 2 * tests >= before.get(name, (0, 0))[1]
    }
    return {name: one for name, one in (before | newer).items() if (CHECKOUT / name).is_file()}


def write_table() -> int:
    if not CACHED.is_file():
        print(f"No run has kept its measurements in {CACHED.relative_to(CHECKOUT)}: run make test", file=sys.stderr)
        return 1
    measured: Measured = json.loads(CACHED.read_text())
    table = {name: round(seconds / tests, 3) for name, (seconds, tests) in measured.items() if seconds >= IN_TABLE}
    TABLE.write_text(json.dumps(table, indent=4, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(write_table())
