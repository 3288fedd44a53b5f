"""A few tests that fail beside others run once more; what fails twice, or often, fails the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import run

#: A test that fails as often as its file of counts says.
MODULE = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_it(number):
    count = Path({folder!r}) / f"runs-{{number}}"
    runs = int(count.read_text()) if count.exists() else 0
    count.write_text(str(runs + 1))
    assert runs >= {failures}
"""


@pytest.mark.parametrize(
    ("tests", "failures", "code", "runs"),
    [(1, 0, 0, 1), (1, 1, 0, 2), (run.FEW, 1, 0, 2), (1, 2, 1, 2), (run.FEW + 1, 1, 1, 1)],
    ids=["none fails", "one fails once", "a few fail once", "one fails twice", "many fail once"],
)
def test_which_runs_pass(tmp_path: Path, tests: int, failures: int, code: int, runs: int) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:django -p no:asyncio\n")
    (tmp_path / "test_module.py").write_text(MODULE.format(tests=tests, folder=str(tmp_path), failures=failures))
    assert run.run(["-q"], tmp_path) == code
    assert [(tmp_path / f"runs-{number}").read_text() for number in range(tests)] == [str(runs)] * tests
