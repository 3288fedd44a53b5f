"""The cost of true range markers: files received with them, each sent when the disk has its octets, and without.

    python -m bench.fsync FOLDER [--rounds 5]

Between two servers of ours on loopback; the source is in memory, FOLDER is on the disk to be measured. `TREV RESTART 0`
asks for no markers, and then nothing is synced. The disk is emptied of what waits for it before each turn.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.place import workplace
from bench.table import machine
from tests.faults.stations import OwnStation
from tests.gridftp.ftp_dialogue import Dialogue, ThirdParty
from tests.gridftp.toolkit import hand_over


class Load(NamedTuple):
    """Files of one size, in one transfer after the other."""

    name: str
    files: int
    size: int


LOADS = (
    Load("1,000 of 100 KB", 1000, 100_000),
    Load("100 of 5 MB", 100, 5_000_000),
    Load("4 of 250 MB", 4, 250_000_000),
    Load("1 of 2 GB", 1, 2_000_000_000),
)


def seconds(pair: ThirdParty, load: Load, there: Path, interval: int) -> float:
    for path in there.iterdir():
        path.unlink()
    os.sync()
    pair.destination.demand(f"TREV RESTART {interval}", "TREV PERF 0")
    begun = time.perf_counter()
    for source, destination in pair.move([("/source", f"/{number}") for number in range(load.files)]):
        if source.code != 226 or destination.code != 226:
            raise RuntimeError(f"not moved: {source.text}, {destination.text}")
    return time.perf_counter() - begun


def measure(load: Load, folder: Path, rounds: int) -> None:
    with workplace() as memory, tempfile.TemporaryDirectory(dir=folder, prefix="waybill-bench-") as disk:
        there = Path(disk)
        with (memory / "source").open("wb") as file:
            for begin in range(0, load.size, 10**6):
                file.write(os.urandom(min(10**6, load.size - begin)))
        for root in (memory, there):
            hand_over(root, stop_at=root.parent)
        stations = OwnStation(memory), OwnStation(there)
        try:
            for station in stations:
                asyncio.run(station.start())
            with Dialogue(stations[0].port) as one, Dialogue(stations[1].port) as two:
                for dialogue in (one, two):
                    dialogue.sock.settimeout(600)
                pair = ThirdParty(one, two, parallelism=2)
                runs = [(seconds(pair, load, there, 1), seconds(pair, load, there, 0)) for _ in range(1 + rounds)][1:]
        finally:
            for station in stations:
                station.end()
    true, plain = (statistics.median(column) for column in zip(*runs, strict=True))
    ratio = statistics.median(one / two for one, two in runs)
    rate = load.files * load.size / 1e6
    sys.stdout.write(
        f"| {load.name} | {true:.2f} | {plain:.2f} | {rate / true:.0f} | {rate / plain:.0f} | {ratio:.2f} |\n"
    )
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    sys.stdout.write(f"\n{arguments.rounds} rounds in turns ({machine()})\n\n")
    sys.stdout.write(
        "| files | synced, s | not, s | synced, MB/s | not, MB/s | synced / not |\n|---|---|---|---|---|---|\n"
    )
    for load in LOADS:
        measure(load, arguments.folder, arguments.rounds)


if __name__ == "__main__":
    main()
