"""The matrix of lost workers: one is lost at a step of a task, another one ends it, the user goes on, then the first.

    python -m bench.recovery.lost_workers [--runs 500] [--pairs toolkit/toolkit,sftp/own,...]
                           [--kinds transfer,deletion] [--losses WORKER_FROZEN,...] [--minutes N] [--seed 1]

Each row has `runs` runs for each pair, each at a step that is drawn from all that a good run has. Prints each run that
is not as it should be, then a table. Wrong files of a deletion are the user's that were deleted afterwards. Counted by
themselves are the runs in which a server of others that stood still executed a command of a client that had
disconnected, on a name that is not our own: what remains (docs/decisions/settlement.md).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
django.setup()

from bench.table import machine  # noqa: E402 (the models need Django)
from tests.faults.lost_workers import Loss, Outcome, losses_of, run_lost  # noqa: E402
from tests.faults.scenes import arena  # noqa: E402
from tests.memory import folder_in_memory  # noqa: E402

PAIRS = (
    *("toolkit/toolkit", "own/own", "toolkit/own", "own/toolkit", "vsftpd/vsftpd", "pure-ftpd/pure-ftpd"),
    *("proftpd/proftpd", "sftp/sftp", "own/sftp", "sftp/own"),
)


@dataclass
class Row:
    """The runs of one loss between two servers."""

    name: str
    runs: int = 0
    came_true: int = 0
    wrong: int = 0
    files: int = 0
    known: int = 0
    amiss: int = 0
    litter: int = 0
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.came_true += outcome.came_true
        self.wrong += bool(outcome.wrong)
        self.files += len(outcome.wrong)
        self.known += bool(outcome.known)
        self.amiss += bool(outcome.amiss)
        self.litter += outcome.litter
        self.seconds += outcome.seconds
        if outcome.wrong or outcome.amiss:
            sys.stdout.write(f"{self.name}: {outcome}\n")
            sys.stdout.flush()

    def line(self) -> str:
        each = self.seconds / max(1, self.runs)
        cells = (
            self.name,
            self.runs,
            self.came_true,
            self.wrong,
            self.files,
            self.known,
            self.amiss,
            self.litter,
            f"{each:.3f}",
        )
        return f"| {' | '.join(map(str, cells))} |\n"


async def measure(root: Path, arguments: argparse.Namespace, until: float) -> list[Row]:
    rows: list[Row] = []
    chosen = random.Random(arguments.seed)
    for kind, pair in product(arguments.kinds.split(","), arguments.pairs.split(",")):
        delete = kind == "deletion"
        source, destination = pair.split("/")
        if delete and source != destination:
            continue
        with arena(Path(tempfile.mkdtemp(dir=root)), source, destination) as place:
            steps = (await run_lost(place, delete=delete)).steps
            for loss in losses_of(delete):
                if loss.name not in arguments.losses.split(","):
                    continue
                rows.append(row := Row(f"{kind}, {source if delete else pair}: {loss.name}"))
                while row.runs < arguments.runs and time.monotonic() < until:
                    row.add(await run_lost(place, loss, chosen.choice(steps), delete=delete))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="of each row")
    parser.add_argument("--pairs", default=",".join(PAIRS))
    parser.add_argument("--kinds", default="transfer,deletion")
    parser.add_argument("--losses", default=",".join(loss.name for loss in Loss))
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after so many")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begun = time.monotonic()
    with folder_in_memory("waybill-lost-", 0o777) as root:
        rows = asyncio.run(measure(root, arguments, begun + 60 * arguments.minutes))
    out = sys.stdout.write
    out(f"\nLost workers ({machine()}), {time.monotonic() - begun:.0f} s\n\n")
    heads = ("row", "runs", "came true", "runs with wrong files", "wrong files", "runs with what remains", "else amiss")
    out(f"| {' | '.join(heads)} | names left | s a run |\n")
    out("|---|---|---|---|---|---|---|---|---|\n")
    for row in rows:
        out(row.line())


if __name__ == "__main__":
    main()
