"""Run pytest, then run the few tests that failed once more, alone:  python -m tests.second_try -n 4 -m "not nightly"

The processes of a run share two cores, and some tests wait for what other programs do in the meantime. A test that
fails alone too fails the run. One that passes alone is named at the end, with its first failure above: it is a defect
of the test or of the product, to be mended (CONTRIBUTING.md). With WAYBILL_SECOND_TRY=0 there is no second try.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

#: More failures are a fault of what was changed, and not of the moment.
MOST = 3


class Failures:
    """A plugin of pytest that keeps the names of the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)


def main(words: Sequence[str]) -> int:
    """The exit status of pytest, of the second try where there was one."""
    failures = Failures()
    status = int(pytest.main(list(words), plugins=[failures]))
    names = failures.names
    tries_again = status == pytest.ExitCode.TESTS_FAILED and 0 < len(names) <= MOST
    if not tries_again or os.environ.get("WAYBILL_SECOND_TRY") == "0":
        return status
    print(f"\nOnce more, alone: {' '.join(names)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:xdist", *names], check=False).returncode
    if status == 0:
        print(f"\nThese tests failed beside others and passed alone; each is a defect: {' '.join(names)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
