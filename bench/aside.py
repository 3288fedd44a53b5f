"""The cost of temporary names: files written under their own names, and aside and then renamed, in turns on loopback.

    python -m bench.aside [--files 2000] [--rounds 9]

Between two servers of a kind, the toolkit's and ours, over one lane and over four, without a database. Files get their
names by `SITE WAYBILL REPLACE` at ours, and by RNFR and RNTO at the toolkit's. The ratio is the median of the rounds'
ratios: the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.place import workplace
from bench.table import machine
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileProgress, FileSettled, Transfer
from tests.faults.stations import KINDS, Station
from tests.gridftp.toolkit import hand_over

SIZES = (1_000, 100_000)
LANES = (1, 4)
#: Servers that anybody may use: the lanes sign in nowhere.
OPEN_KINDS = ("own", "toolkit")
#: Files under way in a lane, and its data streams.
DEPTH, STREAMS = 100, 2
#: Rounds that are not counted.
WARM_UP = 2


class Site(NamedTuple):
    """Two servers of a kind, the folder of files on one of them, and an empty one on the other."""

    source: Station
    destination: Station
    here: Path
    there: Path

    def transfers(self, *, aside: bool) -> Iterator[Transfer]:
        """All files. Their order on the disk is of no importance."""
        for path in sorted(self.here.iterdir()):
            target = self.destination.path(self.there / path.name)
            written = self.destination.path(self.there / f".waybill-{path.name}") if aside else target
            source = self.source.path(path)
            yield Transfer(path.name, source, written, path.stat().st_size, target if aside else None)


async def _move(site: Site, transfers: Iterator[Transfer]) -> None:
    """One lane takes files until there are none."""
    ends = [await GridFTPSession.open("127.0.0.1", one.port) for one in (site.source, site.destination)]
    lane = ThirdPartyLane(*ends, parallelism=STREAMS, accept_address=lambda _: True)
    under_way = 0
    while True:
        for transfer in itertools.islice(transfers, DEPTH - (under_way - lane.renaming)):
            lane.feed(transfer)
            under_way += 1
        if not under_way:
            break
        for event in await lane.events():
            if not isinstance(event, FileSettled | FileProgress):
                raise RuntimeError(f"not moved: {event}")
            under_way -= isinstance(event, FileSettled)
    for session in lane.release() or ():
        session.abort()


async def _seconds(site: Site, lanes: int, *, aside: bool) -> float:
    """All files into the empty folder; every name and size is checked."""
    for path in site.there.iterdir():
        path.unlink()
    transfers = iter(list(site.transfers(aside=aside)))
    begun = time.perf_counter()
    await asyncio.gather(*(_move(site, transfers) for _ in range(lanes)))
    seconds = time.perf_counter() - begun
    found = {path.name: path.stat().st_size for path in site.there.iterdir()}
    if found != {path.name: path.stat().st_size for path in site.here.iterdir()}:
        raise RuntimeError("files are missing, or their names or sizes are wrong")
    return seconds


async def measure(site: Site, lanes: int, rounds: int) -> tuple[list[float], list[float]]:
    """The seconds under the own names, and those aside; the order changes from round to round."""
    direct, aside = [], []
    for number in range(WARM_UP + rounds):
        took: dict[bool, float] = {}
        for way in (False, True) if number % 2 else (True, False):
            took[way] = await _seconds(site, lanes, aside=way)
        if number >= WARM_UP:
            direct.append(took[False])
            aside.append(took[True])
    return direct, aside


def make_files(folder: Path, count: int, size: int) -> None:
    for number in range(count):
        (folder / f"file{number:05d}").write_bytes(os.urandom(size))


async def _bench(kinds: list[str], files: int, rounds: int) -> None:
    out = sys.stdout.write
    out(f"\n{files} files, {rounds} rounds in turns ({machine()})\n\n")
    out("| servers | octets | lanes | direct, s | aside, s | us a file | aside / direct |\n")
    out("|---|---|---|---|---|---|---|\n")
    for kind, size in itertools.product(kinds, SIZES):
        with workplace() as root:
            site = Site(KINDS[kind](root), KINDS[kind](root), root / "here", root / "there")
            site.here.mkdir()
            site.there.mkdir()
            make_files(site.here, files, size)
            hand_over(root, stop_at=root.parent)
            try:
                await asyncio.gather(site.source.start(), site.destination.start())
                for lanes in LANES:
                    direct, aside = await measure(site, lanes, rounds)
                    ratio = statistics.median(two / one for one, two in zip(direct, aside, strict=True))
                    one, two = statistics.median(direct), statistics.median(aside)
                    cost = (two - one) / files * 1e6
                    out(f"| {kind} | {size:,} | {lanes} | {one:.3f} | {two:.3f} | {cost:.0f} | {ratio:.3f} |\n")
                    sys.stdout.flush()
            finally:
                for station in (site.source, site.destination):
                    station.end()
                with suppress(OSError):
                    shutil.rmtree(site.here)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kind", choices=OPEN_KINDS, action="append", help="servers of this kind only")
    arguments = parser.parse_args()
    asyncio.run(_bench(arguments.kind or list(OPEN_KINDS), arguments.files, arguments.rounds))


if __name__ == "__main__":
    main()
