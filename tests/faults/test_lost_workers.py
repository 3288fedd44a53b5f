"""A worker that is lost at a step of a task between two real servers spoils nothing, and touches nothing afterwards.

A part of the matrix: `python -m bench.recovery.lost_workers --runs 500` runs 500 of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.lost_workers import Loss, Outcome, losses_of, run_lost
from tests.faults.scenes import Arena, arena
from tests.faults.stations import Station
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS
from tests.gridftp.proxy import Step, Watch
from tests.gridftp.ssh_grid import NEEDS_SSHD

pytestmark = pytest.mark.toolkit

#: Each server is at both ends of a pair of its own; the mixed pairs repeat the losses at either end.
PAIRS = [
    ("own", "own"),
    ("toolkit", "toolkit"),
    pytest.param("toolkit", "own", marks=pytest.mark.nightly),
    pytest.param("own", "toolkit", marks=pytest.mark.nightly),
]
#: Servers of others without GridFTP, for which fewer runs must do here.
OTHERS = [("pure-ftpd", "vsftpd"), pytest.param("proftpd", "sftp", marks=pytest.mark.nightly), ("sftp", "own")]
#: Runs of each row here.
FEW = 6
FEW_OF_OTHERS = 2


def some(steps: Sequence[tuple[bool, Step]], count: int) -> Sequence[tuple[bool, Step]]:
    """Steps from all of a good run, without its very first."""
    return steps[len(steps) // (2 * count) :: -(-len(steps) // count)]


def judge_books(outcomes: Sequence[Outcome]) -> None:
    assert [str(one) for one in outcomes if one.wrong or one.amiss] == []


def judge(outcomes: Sequence[Outcome]) -> None:
    judge_books(outcomes)
    assert any(one.came_true for one in outcomes), "a step must be reached, or the test tests nothing"


#: The steps of a good run: of a transfer from one server to the other, or of a deletion. They are the same in each run.
_steps: dict[tuple[type[Station], type[Station], bool], Sequence[tuple[bool, Step]]] = {}


async def steps_of(place: Arena, *, delete: bool) -> Sequence[tuple[bool, Step]]:
    key = (type(place.source), type(place.destination), delete)
    if key not in _steps:
        good = await run_lost(place, delete=delete)
        judge_books([good])
        assert not good.litter
        _steps[key] = good.steps
    return _steps[key]


async def row(place: Arena, loss: Loss, *, delete: bool, runs: int = FEW) -> None:
    steps = some(await steps_of(place, delete=delete), runs)
    judge([await run_lost(place, loss, at, delete=delete) for at in steps])


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


@NEEDS_SSHD
@NEEDS_FTP_SERVERS
@pytest.mark.parametrize("loss", losses_of(delete=False))
@pytest.mark.parametrize(("source", "destination"), OTHERS)
async def test_so_it_is_with_servers_of_others(root: Path, source: str, destination: str, loss: Loss) -> None:
    with arena(root, source, destination) as place:
        await row(place, loss, delete=False, runs=FEW_OF_OTHERS)


@NEEDS_SSHD
@NEEDS_FTP_SERVERS
@pytest.mark.parametrize("loss", losses_of(delete=True))
@pytest.mark.parametrize("server", ["vsftpd", "sftp"])
async def test_so_it_is_with_deletions_by_servers_of_others(root: Path, server: str, loss: Loss) -> None:
    with arena(root, server, server) as place:
        await row(place, loss, delete=True, runs=FEW_OF_OTHERS)


@NEEDS_FTP_SERVERS
async def test_an_empty_file_that_has_grown_before_it_is_sent_has_its_new_size(root: Path) -> None:
    """A plain FTP server reports no octets, so the sizes are compared after it was sent."""
    with arena(root, "pure-ftpd", "vsftpd") as place:
        for step in (Step(Watch.COMMANDS, "RETR", 0), Step(Watch.COMMANDS, "STOR", 3)):
            judge([await run_lost(place, Loss.SOURCE_LONGER, (step.verb == "RETR", step))])


async def test_without_its_fence_a_worker_that_stood_still_deletes_what_came_afterwards(root: Path) -> None:
    """So the rows above would see it."""
    with arena(root, "toolkit", "toolkit") as place:
        steps = [Step(Watch.REPLIES, "DELE", number, 250) for number in range(20, 200, 20)]
        for step in steps:
            outcome = await run_lost(place, Loss.WORKER_FROZEN, (True, step), delete=True, fenced=False)
            if outcome.wrong:
                return
        raise AssertionError("nothing was deleted afterwards")
