"""Many tasks of one small file, as gateways submit them, and one task of as many files, between two toolkit servers.

    python -m bench.transfers.small_tasks [--tasks 100] [--rounds 5]

The seconds are from the first POST to the end of the last task, by the database's clock. Beside them stands what each
part of the service used of the processor for one file: a task costs a submission, a lease, events, and its end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.place import workplace
from bench.table import machine
from bench.transfers.million import Usage
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, database, instance

OCTETS = 1000


class Pair:
    """Two endpoints, and a folder of small files at the first one."""

    def __init__(self, api: Api, root: Path, ports: tuple[int, int]) -> None:
        self.api, self.root = api, root
        self.source, self.destination = (api.endpoint(f"small{number}", port) for number, port in enumerate(ports))
        self._copies = 0

    def names(self, files: int) -> list[tuple[str, str]]:
        """The paths of the source, and new ones of the destination."""
        self._copies += 1
        target = self.root / "to" / str(self._copies)
        target.mkdir()
        hand_over(target, stop_at=self.root.parent)
        return [(f"{self.root}/from/{number}", f"{target}/{number}") for number in range(files)]

    def tasks(self, files: int) -> list[str]:
        return [self.api.transfer(self.source, one, self.destination, two) for one, two in self.names(files)]

    def task(self, files: int) -> list[str]:
        return [self.api.transfer_items(self.source, self.destination, self.names(files))]


def run(api: Api, submit: Callable[[], list[str]]) -> tuple[float, dict[str, float]]:
    """The seconds until all tasks have succeeded, and the seconds of processor of each part of the service."""
    usage = Usage()
    usage.look(os.getpid())
    begun = time.time()
    ids = submit()
    for task_id in ids:
        task = api.wait(task_id, interval=0.2)
        if task["status"] != "SUCCEEDED":
            raise RuntimeError(f"the task ended as {task['status']}: {task['fatal_error']}")
    usage.look(os.getpid())
    with database(api) as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM max(completion_time)) FROM tasks_task WHERE id = ANY(%s::uuid[])", [ids]
        )
        (ended,) = cursor.fetchone()
    return float(ended) - begun, usage.by_group()


def report(files: int, found: dict[str, list[tuple[float, dict[str, float]]]]) -> None:
    out = sys.stdout.write
    out(f"{files} files of {OCTETS} octets, medians ({machine()})\n\n")
    out("ms: of processor, for each file.\n\n")
    out("| | seconds | files a second | workers, ms | database, ms | web, ms |\n|---|---|---|---|---|---|\n")
    for name, runs in found.items():
        seconds = statistics.median(one for one, _ in runs)
        parts: dict[str, list[float]] = defaultdict(list)
        for _, used in runs:
            for part in ("workers", "database", "web"):
                parts[part].append(used.get(part, 0.0) / files * 1e3)
        shown = " | ".join(f"{statistics.median(values):.1f}" for values in parts.values())
        out(f"| {name} | {seconds:.2f} | {files / seconds:.1f} | {shown} |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100, help="at most as many as one user may have waiting")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    files = arguments.tasks
    with workplace() as root:
        for folder in ("from", "to"):
            (root / folder).mkdir()
        for number in range(files):
            (root / "from" / str(number)).write_bytes(os.urandom(OCTETS))
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            pair = Pair(api, root, (one.port, two.port))
            forms = {"tasks of one file": pair.tasks, "one task of all": pair.task}
            found: dict[str, list[tuple[float, dict[str, float]]]] = defaultdict(list)
            for number in range(arguments.rounds + 1):
                for name, submit in forms.items():
                    result = run(api, partial(submit, files))
                    if number:  # the first round opens sessions
                        found[name].append(result)
        report(files, found)


if __name__ == "__main__":
    main()
