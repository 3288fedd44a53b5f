"""Many tasks of one small file, as gateways submit them, and one task of as many files, between two toolkit servers.

    python -m bench.transfers.small_tasks [--tasks 100] [--rounds 5] [--users 20] [--octets 1]

The seconds are from the first POST to the end of the last task, by the database's clock. Beside them stands what each
part of the service used of the processor for one file: a task costs a submission, a lease, events, and its end.
`--users`: the tasks are submitted by so many users at once, each with a part of them; one task of all is left out then.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.place import workplace
from bench.table import machine
from bench.transfers.million import Usage
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, database, instance

#: The parts of the service whose processor time is shown.
PARTS = ("workers", "database", "web", "servers")
#: Seconds after which tasks of one round that are not done are an error.
MOST_SECONDS = 600.0


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
        return self._submit(self.api, self.names(files))

    def tasks_of(self, users: Sequence[Api], files: int) -> list[str]:
        """Each user submits a part of the tasks, one after the other, and all users at the same time."""
        names = self.names(files)
        with ThreadPoolExecutor(len(users)) as threads:
            parts = [names[number :: len(users)] for number in range(len(users))]
            return [task_id for ids in threads.map(self._submit, users, parts) for task_id in ids]

    def _submit(self, api: Api, names: Sequence[tuple[str, str]]) -> list[str]:
        return [api.transfer(self.source, one, self.destination, two) for one, two in names]

    def task(self, files: int) -> list[str]:
        return [self.api.transfer_items(self.source, self.destination, self.names(files))]


def run(api: Api, submit: Callable[[], list[str]]) -> tuple[float, dict[str, float]]:
    """The seconds until all tasks have succeeded, and the seconds of processor of each part of the service."""
    usage = Usage()
    usage.look(os.getpid())
    begun = time.time()
    ids = submit()
    _wait(api, ids)
    usage.look(os.getpid())
    with database(api) as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM max(completion_time)) FROM tasks_task WHERE id = ANY(%s::uuid[])", [ids]
        )
        (ended,) = cursor.fetchone()
    return float(ended) - begun, usage.by_group()


def _wait(api: Api, ids: list[str]) -> None:
    """Ask the database, whose clock counts: requests for each of the tasks would cost what is measured."""
    until = time.monotonic() + MOST_SECONDS
    while time.monotonic() < until:
        with database(api) as cursor:
            cursor.execute("SELECT status, count(*) FROM tasks_task WHERE id = ANY(%s::uuid[]) GROUP BY 1", [ids])
            found = dict(cursor.fetchall())
        if bad := found.keys() - {"ACTIVE", "SUCCEEDED"}:
            raise RuntimeError(f"tasks ended as {', '.join(sorted(bad))}")
        if "ACTIVE" not in found:
            return
        time.sleep(0.2)
    raise TimeoutError(f"of {len(ids)} tasks, {found.get('ACTIVE')} are not done after {MOST_SECONDS:g} s")


def report(files: int, octets: int, found: dict[str, list[tuple[float, dict[str, float]]]]) -> None:
    out = sys.stdout.write
    out(f"{files} files of {octets} octets, medians ({machine()})\n\n")
    out("ms: of processor, for each file.\n\n")
    out(f"| | seconds | files a second | {', ms | '.join(PARTS)}, ms | all, ms |\n")
    out(f"|---|---|---|{'---|' * len(PARTS)}---|\n")
    for name, runs in found.items():
        seconds = statistics.median(one for one, _ in runs)
        used = [[parts.get(part, 0.0) / files * 1e3 for part in PARTS] for _, parts in runs]
        columns = [*zip(*used, strict=True), [sum(one) for one in used]]
        shown = " | ".join(f"{statistics.median(values):.1f}" for values in columns)
        out(f"| {name} | {seconds:.2f} | {files / seconds:.1f} | {shown} |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100, help="for each user at most as many as may wait")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--users", type=int, default=1)
    parser.add_argument("--octets", type=int, default=1000, help="of each file")
    arguments = parser.parse_args()
    files = arguments.tasks
    with workplace() as root:
        for folder in ("from", "to"):
            (root / folder).mkdir()
        for number in range(files):
            (root / "from" / str(number)).write_bytes(os.urandom(arguments.octets))
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            pair = Pair(api, root, (one.port, two.port))
            forms = {"tasks of one file": pair.tasks, "one task of all": pair.task}
            if arguments.users > 1:
                users = [api.as_new_user(f"user{number}") for number in range(arguments.users)]
                forms = {f"tasks of one file, {len(users)} users": partial(pair.tasks_of, users)}
            found: dict[str, list[tuple[float, dict[str, float]]]] = defaultdict(list)
            for number in range(arguments.rounds + 1):
                for name, submit in forms.items():
                    result = run(api, partial(submit, files))
                    if number:  # the first round opens sessions
                        found[name].append(result)
        report(files, arguments.octets, found)


if __name__ == "__main__":
    main()
