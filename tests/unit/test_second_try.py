"""`make test` runs the few tests that failed once more, alone (tests/second_try.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transferapi.config import CHECKOUT

#: A test that passes from its second run on: the first one leaves a file.
PASSES_LATER = """
from pathlib import Path
def test_{name}():
    been = Path(__file__).with_suffix(".{name}")
    before = been.exists()
    been.touch()
    assert before
"""
FAILS = "\ndef test_{name}():\n    assert False\n"
PASSES = "\ndef test_{name}():\n    pass\n"


def run(folder: Path, *tests: str, **env: str) -> tuple[int, str]:
    """The exit status, and what was printed, where a module has these tests."""
    (folder / "test_it.py").write_text("".join(text.format(name=f"n{number}") for number, text in enumerate(tests)))
    words = [sys.executable, "-m", "tests.second_try", "-p", "xdist", "-n", "2", "test_it.py"]
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO", "WAYBILL"))}
    ours = {"PYTHONPATH": str(CHECKOUT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        words, cwd=folder, env={**given, **ours, **env}, capture_output=True, text=True, check=False, timeout=200
    )
    return done.returncode, done.stdout


def test_tests_that_pass_alone_let_the_run_pass_and_are_named(tmp_path: Path) -> None:
    status, said = run(tmp_path, PASSES_LATER, PASSES, PASSES_LATER)
    assert status == 0, said
    assert "2 failed, 1 passed" in said
    *_, last = said.splitlines()
    assert "each is a defect" in last
    assert {word for word in last.split() if "::" in word} == {"test_it.py::test_n0", "test_it.py::test_n2"}


@pytest.mark.parametrize(
    "tests",
    [[FAILS], [PASSES_LATER, FAILS], [PASSES_LATER] * 4, ["\nimport nothing_of_this_name\n"]],
    ids=["fails again", "one fails again", "too many", "cannot be imported"],
)
def test_other_failures_fail_the_run(tmp_path: Path, tests: list[str]) -> None:
    status, said = run(tmp_path, *tests)
    assert status != 0, said
    assert "each is a defect" not in said


def test_the_second_try_can_be_switched_off(tmp_path: Path) -> None:
    status, said = run(tmp_path, PASSES_LATER, WAYBILL_SECOND_TRY="0")
    assert status == 1, said


def test_tests_that_pass_run_once(tmp_path: Path) -> None:
    status, said = run(tmp_path, PASSES)
    assert (status, "Once more" in said) == (0, False), said
