"""The whole fault matrix: a fault at each step of a lane's dialogue, on either side, and what holds afterwards.

    python -m bench.recovery.fault_matrix [--pairs toolkit-toolkit,own-own,...] [--modes ES]
                           [--scenes plain,refused,renamed]
                           [--troubles RESET,KILLED,...] [--side-by-side 4] [--every 1] [--minutes N]
                           [--levels lane,engine,worker]

Levels: `lane` drives one lane and looks at every event; `engine` runs slices of a task until all is settled; `worker`
kills the worker at each step, and another one takes over. Prints each case that is not as it should be, then a table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
django.setup()

from bench.table import machine  # noqa: E402 (the models need Django)
from tests.faults import engine_matrix, lane_matrix  # noqa: E402
from tests.faults.lane_matrix import Case, Trouble, Verdict, cases_of  # noqa: E402
from tests.faults.scenes import SCENES, Arena, arena  # noqa: E402

PAIRS = ("toolkit-toolkit", "own-own", "toolkit-own", "own-toolkit")
LEVELS: dict[str, Callable[[Arena, Case], Awaitable[Verdict]]] = {
    "lane": lane_matrix.run_case,
    "engine": engine_matrix.run_case,
    "worker": engine_matrix.run_killed,
}


@dataclass(frozen=True)
class Block:
    """Cases that are tried one after another, in one arena."""

    level: str
    pair: str
    scene: str
    stream: bool


@dataclass
class Row:
    """Of one level and trouble."""

    cases: int = 0
    came_true: int = 0
    wrong: int = 0
    hung: int = 0
    other: int = 0
    left_over: int = 0
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        words = " ".join(verdict.problems)
        self.cases += 1
        self.came_true += verdict.came_true
        self.wrong += "wrong" in words
        self.hung += "hang" in words
        self.other += bool(words) and "wrong" not in words and "hang" not in words
        self.left_over += verdict.left_over
        self.seconds += verdict.seconds


async def verdicts(block: Block, root: Path, troubles: list[Trouble], every: int) -> AsyncIterator[Verdict]:
    """All cases of the block; the first is the good run, from which the others are made."""
    run = LEVELS[block.level]
    source, destination = block.pair.split("-")
    folder = Path(tempfile.mkdtemp(dir=root))
    with arena(folder, source, destination) as place:
        good = await run(place, Case(block.scene, block.stream))
        yield good
        if block.level == "worker":
            troubles = [Trouble.WORKER_KILLED]
        for case in list(cases_of(good, troubles))[::every]:
            yield await run(place, case)


async def run_all(
    root: Path, blocks: Iterable[Block], troubles: list[Trouble], every: int, side_by_side: int, until: float
) -> dict[str, Row]:
    rows: dict[str, Row] = defaultdict(Row)
    waiting = list(blocks)

    async def work() -> None:
        while waiting:
            block = waiting.pop(0)
            async for verdict in verdicts(block, root, troubles, every):
                trouble = verdict.case.trouble
                rows[f"{block.level}: {trouble.name if trouble else 'none'}"].add(verdict)
                if verdict.problems:
                    tell(block, verdict)
                if time.monotonic() > until:
                    return

    async with asyncio.TaskGroup() as group:
        for _ in range(side_by_side):
            group.create_task(work())
    return rows


def tell(block: Block, verdict: Verdict) -> None:
    sys.stdout.write(f"{block.level}, {block.pair}, {verdict.case}: {'; '.join(verdict.problems)}\n")
    sys.stdout.flush()


def print_rows(rows: dict[str, Row], seconds: float) -> None:
    out = sys.stdout.write
    out(f"\nThe fault matrix ({machine()}), {seconds:.0f} s\n\n")
    out("| level: trouble | cases | came true | wrong files | hangs | else amiss | processes left | s a case |\n")
    out("|---|---|---|---|---|---|---|---|\n")
    total = Row()
    for name, row in sorted(rows.items()):
        out(_line(name, row))
        for key, value in vars(row).items():
            setattr(total, key, getattr(total, key) + value)
    out(_line("**all**", total))


def _line(name: str, row: Row) -> str:
    each = row.seconds / row.cases
    cells = (name, row.cases, row.came_true, row.wrong, row.hung, row.other, row.left_over, f"{each:.3f}")
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", default=",".join(PAIRS))
    parser.add_argument("--modes", default="ES")
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--troubles", default=",".join(one.name for one in Trouble if one is not Trouble.WORKER_KILLED))
    parser.add_argument("--side-by-side", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after so many")
    parser.add_argument("--every", type=int, default=1, help="only every so many of the cases")
    arguments = parser.parse_args()
    lists = (arguments.levels, arguments.pairs, arguments.scenes)
    blocks = [
        Block(level, pair, scene, mode == "S")
        for level, pair, scene, mode in product(*(one.split(",") for one in lists), arguments.modes)
    ]
    troubles = [Trouble[name] for name in arguments.troubles.split(",")]
    begun = time.monotonic()
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="waybill-matrix-", dir=shared_memory) as folder:
        root = Path(folder)
        root.chmod(0o777)
        until = begun + 60 * arguments.minutes
        rows = asyncio.run(run_all(root, blocks, troubles, arguments.every, arguments.side_by_side, until))
    print_rows(rows, time.monotonic() - begun)


if __name__ == "__main__":
    main()
