"""2,000 files of 1 KB between two toolkit servers on loopback: ours, database and queue included, against
`globus-url-copy -cc N -pp` at its best.

    python -m bench.transfers.small_files [--files 2000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.place import workplace
from bench.table import print_table
from tests.gridftp.toolkit import CLIENT, ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

CONCURRENCIES = (1, 2, 4, 8)
#: Rounds of all contenders that are not counted: caches, and the sessions of both worker processes.
WARM_UP = 3
#: Seconds before we look how the task went: on few cores every look would take from what it measures.
QUIET = 1.0


def make_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for index in range(count):
        (folder / f"file{index:05d}").write_bytes(os.urandom(1020) + index.to_bytes(4, "big"))


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check(source: Path, destination: Path) -> None:
    """Every file arrived, bit for bit."""
    for path in source.iterdir():
        if (destination / path.name).read_bytes() != path.read_bytes():
            raise RuntimeError(f"{path.name} is wrong")


def by_globus_url_copy(concurrency: int, source: str, destination: str) -> float:
    begun = time.time()
    subprocess.run([CLIENT, "-cc", str(concurrency), "-pp", "-r", source, destination], check=True, timeout=120)
    return time.time() - begun


def by_us(api: Api, source: str, destination: str, paths: tuple[Path, Path]) -> float:
    begun = time.time()
    task_id = api.transfer(source, f"{paths[0]}/", destination, f"{paths[1]}".rstrip("/") + "/", recursive=True)
    time.sleep(QUIET)
    return seconds_until_settled(api, api.wait(task_id, interval=0.25), begun)


class Site(NamedTuple):
    """Two toolkit servers with the files on one of them, an instance, and the ids of their endpoints there."""

    source: Path
    destination: Path
    servers: tuple[ToolkitServer, ToolkitServer]
    api: Api
    ids: tuple[str, str]


@contextmanager
def site(files: int) -> Iterator[Site]:
    with workplace() as root:
        source, destination = root / "source", root / "destination"
        make_files(source, files)
        destination.mkdir()
        hand_over(root, stop_at=root.parent)
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            ids = api.endpoint("bench1", one.port), api.endpoint("bench2", two.port)
            yield Site(source, destination, (one, two), api, ids)


def measure(site: Site, contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender, in turns, after the warm-up. Every arrival is compared."""
    runs: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(WARM_UP + rounds):
        for name, run in contenders.items():
            empty(site.destination)
            seconds = run()
            check(site.source, site.destination)
            if number >= WARM_UP:
                runs[name].append(seconds)
    return runs


def arguments_of(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of(__doc__)
    with site(arguments.files) as here:
        urls = f"{here.servers[0].url}{here.source}/", f"{here.servers[1].url}{here.destination}/"
        contenders: dict[str, Callable[[], float]] = {
            f"globus-url-copy -cc {cc} -pp": partial(by_globus_url_copy, cc, *urls) for cc in CONCURRENCIES
        }
        contenders["Waybill, POST to settled"] = partial(by_us, here.api, *here.ids, (here.source, here.destination))
        runs = measure(here, contenders, arguments.rounds)
    best = min((name for name in runs if name.startswith("globus")), key=lambda name: statistics.median(runs[name]))
    print_table(f"{arguments.files} files of 1 KB, two toolkit servers, loopback", "s", runs, best)


if __name__ == "__main__":
    main()
