"""One run of a tool in the wide-area benchmark: what it must not count, and clients that hang or fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.wan import report
from bench.wan.cell import Cell, Line
from bench.wan.datasets import DataSet
from bench.wan.network import Network
from bench.wan.tools import Job, Tool, ToolError, TooSlowError, run_client
from tests.waiting import eventually

from .test_wide_area_network import POSSIBLE

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not POSSIBLE, reason="needs root, /dev/net/tun, ip and a C compiler"),
]


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def cell(net: Network, tmp_path: Path) -> Cell:
    """Three files of 1000 octets; the results also go to a file."""
    job = Job(DataSet("DS2", 3, 3000), tmp_path / "source", tmp_path / "destination", limit=5)
    sent = job.data.make(job.source)
    job.destination.mkdir()
    return Cell(net, Line(5, 0), job, sent, tmp_path / "results")


def copy(job: Job) -> float:
    shutil.copytree(job.source, job.destination, dirs_exist_ok=True)
    return 0.5


def copy_and(spoil: Callable[[Path], object]) -> Callable[[Job], float]:
    def run(job: Job) -> float:
        copy(job)
        spoil(job.destination)
        return 0.5

    return run


def test_what_arrived_whole_is_done_and_its_speed_is_that_of_all_octets(cell: Cell, tmp_path: Path) -> None:
    (cell.job.destination / "left over").write_text("of an earlier run")
    result = cell.run(Tool("rsync", "", copy))
    assert (result.outcome, result.mb_per_s) == ("done", 0.006)
    assert report.read(tmp_path / "results") == [result]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "file00001").unlink(),
        lambda folder: (folder / "one more").write_text(""),
        lambda folder: os.replace(folder / "file00000", folder / "file00002"),
        lambda folder: (folder / "file00000").write_bytes(bytes(1000)),
    ],
    ids=["missing", "too many", "another's name", "other content"],
)
def test_what_arrived_otherwise_is_wrong_however_fast(cell: Cell, spoil: Callable[[Path], object]) -> None:
    result = cell.run(Tool("rsync", "", copy_and(spoil)))
    assert result.outcome.startswith("wrong")
    assert str(report.figure([result], "rsync")) == "failed"


def test_a_client_that_does_not_end_is_stopped_and_shows_what_had_arrived(cell: Cell) -> None:
    script = f"head -c 1000 {cell.job.source}/file00000 > {cell.job.destination}/file00000; sleep 600"
    tool = Tool("scp", "", lambda job: run_client(cell.net.source, ["sh", "-c", script], job.limit))
    result = cell.run(tool, limit=1)
    assert (result.outcome, result.seconds, result.mb_per_s) == ("slow", 1, 0.001)


def test_a_client_that_fails_says_why(net: Network) -> None:
    with pytest.raises(ToolError, match="no such luck"):
        run_client(net.source, ["sh", "-c", "echo no such luck >&2; exit 3"], 10)


def processes_of(net: Network) -> list[str]:
    words = ["ip", "netns", "pids", net.source.namespace]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def test_a_client_that_hangs_is_gone_afterwards_with_its_children(net: Network) -> None:
    with pytest.raises(TooSlowError):
        run_client(net.source, ["sh", "-c", "sleep 601 & sleep 602"], 0.2)
    eventually(lambda: not processes_of(net))
