"""A worker that is lost at a step of a task between two real servers spoils nothing, and touches nothing afterwards.

A part of the matrix: `python -m bench.recovery.lost_workers --runs 500` runs 500 of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.lost_workers import Loss, Outcome, losses_of, run_lost
from tests.faults.scenes import Arena, arena
from tests.gridftp.proxy import Step, Watch

pytestmark = pytest.mark.toolkit

PAIRS = [("own", "own"), ("toolkit", "toolkit"), ("toolkit", "own"), ("own", "toolkit")]
#: Runs of each row here.
FEW = 6


def few(steps: Sequence[tuple[bool, Step]]) -> Sequence[tuple[bool, Step]]:
    """Steps from all of a good run."""
    return steps[:: -(-len(steps) // FEW)]


def judge_books(outcomes: Sequence[Outcome]) -> None:
    assert [str(one) for one in outcomes if one.wrong or one.amiss] == []


def judge(outcomes: Sequence[Outcome]) -> None:
    judge_books(outcomes)
    assert any(one.came_true for one in outcomes), "a step must be reached, or the test tests nothing"


async def row(place: Arena, loss: Loss, *, delete: bool) -> None:
    good = await run_lost(place, delete=delete)
    judge([await run_lost(place, loss, at, delete=delete) for at in few(good.steps)])
    judge_books([good])
    assert not good.litter


@pytest.mark.parametrize("loss", losses_of(delete=False))
@pytest.mark.parametrize(("source", "destination"), PAIRS)
async def test_a_transfer_ends_with_whole_files_and_touches_none_of_the_users_afterwards(
    root: Path, source: str, destination: str, loss: Loss
) -> None:
    with arena(root, source, destination) as place:
        await row(place, loss, delete=False)


@pytest.mark.parametrize("loss", losses_of(delete=True))
@pytest.mark.parametrize("server", ["own", "toolkit"])
async def test_a_deletion_removes_all_and_nothing_that_came_afterwards(root: Path, server: str, loss: Loss) -> None:
    with arena(root, server, server) as place:
        await row(place, loss, delete=True)


async def test_without_its_fence_a_worker_that_stood_still_deletes_what_came_afterwards(root: Path) -> None:
    """So the rows above would see it."""
    with arena(root, "toolkit", "toolkit") as place:
        steps = [Step(Watch.REPLIES, "DELE", number, 250) for number in range(20, 200, 20)]
        for step in steps:
            outcome = await run_lost(place, Loss.WORKER_FROZEN, (True, step), delete=True, fenced=False)
            if outcome.wrong:
                return
        raise AssertionError("nothing was deleted afterwards")
