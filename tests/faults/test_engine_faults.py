"""A task between two real servers, with a fault at a step of what it says to them, or its worker killed there.

A part of the matrix, as in test_lane_faults.py: `python -m bench.recovery.fault_matrix --levels engine,worker` runs all
of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.engine_matrix import run_case, run_killed
from tests.faults.lane_matrix import Case, Trouble, Verdict, cases_of
from tests.faults.scenes import arena

pytestmark = pytest.mark.toolkit

SAME = [("toolkit", "toolkit"), ("own", "own")]


def judge(verdicts: list[Verdict]) -> None:
    assert [(str(verdict.case), verdict.problems) for verdict in verdicts if verdict.problems] == []
    assert any(verdict.came_true for verdict in verdicts), "the plans must come true, or the test tests nothing"


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_a_killed_worker_spoils_no_file_and_none_is_counted_twice(
    root: Path, source: str, destination: str
) -> None:
    with arena(root, source, destination) as place:
        good = await run_killed(place, Case("plain"))
        cases = list(cases_of(good, [Trouble.WORKER_KILLED]))
        judge([good, *[await run_killed(place, case) for case in cases[::16]]])


@pytest.mark.parametrize(("source", "destination"), SAME)
async def test_a_task_rides_out_a_fault_at_any_step(root: Path, source: str, destination: str) -> None:
    with arena(root, source, destination) as place:
        good = await run_case(place, Case("plain"))
        cases = list(cases_of(good, [Trouble.RESET, Trouble.KILLED, Trouble.PERMANENT_ERROR]))
        judge([good, *[await run_case(place, case) for case in cases[::24]]])
