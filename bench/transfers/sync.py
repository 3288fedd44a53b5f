"""Sync of 20,000 files that are all in place, at each level: ours against `globus-url-copy -sync` and `rsync`.

python -m bench.transfers.sync [--files 20000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.place import workplace
from bench.table import print_table
from tests.gridftp.toolkit import CLIENT, ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

#: Files in one folder.
FOLDER = 1000
QUIET = 0.5


def make_files(folder: Path, count: int) -> None:
    for index in range(count):
        path = folder / f"d{index // FOLDER}" / f"file{index:05d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1024))


def timed(command: Sequence[str]) -> float:
    begun = time.time()
    subprocess.run(command, check=True, timeout=600)
    return time.time() - begun


def by_us(api: Api, ids: tuple[str, str], paths: tuple[Path, Path], level: int) -> float:
    begun = time.time()
    task_id = api.transfer(ids[0], f"{paths[0]}/", ids[1], f"{paths[1]}/", recursive=True, sync_level=level)
    time.sleep(QUIET)
    task = api.wait(task_id, interval=0.25)
    seconds = seconds_until_settled(api, task, begun)
    if task["files_transferred"] or not task["files_skipped"]:
        raise RuntimeError(f"{task['files_transferred']} files were sent, {task['files_skipped']} skipped")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with workplace() as root:
        source, destination = root / "source", root / "destination"
        make_files(source, arguments.files)
        shutil.copytree(source, destination)
        hand_over(root, stop_at=root.parent)
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            ids = api.endpoint("sync1", one.port), api.endpoint("sync2", two.port)
            runs: dict[str, list[float]] = {}
            for _ in range(arguments.rounds):
                for level in range(4):
                    name = f"globus-url-copy -sync -sync-level {level}"
                    urls = f"{one.url}{source}/", f"{two.url}{destination}/"
                    runs.setdefault(name, []).append(
                        timed([CLIENT, "-r", "-cd", "-sync", "-sync-level", str(level), *urls])
                    )
                    seconds = by_us(api, ids, (source, destination), level)
                    runs.setdefault(f"Waybill, sync_level {level}, POST to settled", []).append(seconds)
                if rsync := shutil.which("rsync"):
                    name = "rsync -r --size-only, on one machine"
                    runs.setdefault(name, []).append(
                        timed([rsync, "-r", "--size-only", f"{source}/", str(destination)])
                    )
    title = f"{arguments.files} files in place, two toolkit servers, loopback"
    print_table(title, "s", runs, "globus-url-copy -sync -sync-level 1")


if __name__ == "__main__":
    main()
