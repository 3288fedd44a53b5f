"""A whole instance moves random trees under random faults; every hash and every counter is compared.

    python -m bench.soak [--tasks 500] [--minutes N] [--seed S] [--at-once 6] [--kinds toolkit,own,...]

Endpoints of all kinds stand behind proxies that refuse, cut, delay, falsify and fall silent at random; servers, agents
and workers are killed, or stand still for longer than a lease; Redis and the database are killed. Faults stop when the
last task has been submitted and its time has come to end. Prints each task that is not as it should be, then the
summary.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import random
import shutil
import sys
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import psycopg2

from bench.place import workplace
from bench.soak.books import audit, compare, has_event
from bench.soak.fault_injection import FaultChooser, Site, make_site, storm
from bench.soak.trees import Found, look_at, make_tree
from bench.table import machine
from tests.instance import Api, instance
from transferapi.tasks.options import NOT_YET

T = TypeVar("T")

#: The kinds of endpoints.
ALL = ("toolkit", "own", "sftp", "vsftpd", "proftpd", "share", "agent")
#: Seconds for one task, whatever happens to it.
TIMEOUT = 900.0
#: The event of a task whose destination would not set a modification time: the file counts all the same.
TIMES_SKIPPED = "PRESERVE_TIMESTAMP_SKIPPED"
#: Of tasks: these go a second time, over what is there already.
AGAIN = 0.25


async def insist(call: Callable[[], T]) -> T:
    """Wait until the service answers: the database may be down, or the web server may not know yet that it is back."""
    for _ in range(120):
        try:
            return await asyncio.to_thread(call)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                raise RuntimeError(f"{error.code}: {error.read()[:500]!r}") from None
        except (OSError, http.client.HTTPException, psycopg2.Error):
            pass
        await asyncio.sleep(0.5)
    raise RuntimeError("the service does not answer any more")


class Soak:
    def __init__(self, api: Api, sites: list[Site], fault_injection: FaultChooser) -> None:
        self.api = api
        self.sites = sites
        self.fault_injection = fault_injection
        self.dice = fault_injection.dice
        self.totals: Counter[str] = Counter()
        self.submitted = 0

    async def work(self, tasks: int, until: float) -> None:
        """One task after another, until there were enough or the time is up."""
        while self.submitted < tasks and time.monotonic() < until:
            self.submitted += 1
            await self.one(f"t{self.submitted:05d}")

    async def one(self, name: str) -> None:
        source, destination = self.dice.sample(self.sites, 2)
        here, there = source.folder / name, destination.folder / f"{name}-copy"
        clear_text = bool({"toolkit", "vsftpd", "proftpd"} & {source.kind, destination.kind})
        await asyncio.to_thread(make_tree, here, self.dice, ascii_only=clear_text)
        for path in (here, *here.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        sent = await asyncio.to_thread(look_at, here)
        try:
            for options in self.plans():
                words = await self.move(source, here, destination, there, sent, options)
                if words:
                    self.totals["tasks amiss"] += 1
                    sys.stdout.write(f"{name}, {source.name} to {destination.name}, {options}: {words}\n")
                    sys.stdout.flush()
        finally:
            shutil.rmtree(here)
            shutil.rmtree(there, ignore_errors=True)

    def plans(self) -> list[dict[str, object]]:
        """The options of a task, and of the same once more where a sync makes sense."""
        first = self.options()
        if "sync_level" in NOT_YET or self.dice.random() > AGAIN:
            return [first]
        return [first, {**self.options(), "sync_level": self.dice.randrange(4)}]

    def options(self) -> dict[str, object]:
        chosen: dict[str, object] = {}
        for name, chance in (("verify_checksum", 0.3), ("preserve_timestamp", 0.3)):
            if name not in NOT_YET and self.dice.random() < chance:
                chosen[name] = True
        if self.dice.random() < 0.4:
            chosen |= {"perf_cc": self.dice.randint(1, 4), "perf_p": self.dice.choice((1, 2, 4, 8))}
            chosen["perf_pp"] = self.dice.choice((1, 5, 20, 100))
        chosen["tuning"] = self.dice.choice(("paper", "adaptive", "fixed"))
        return chosen

    async def move(
        self, source: Site, here: Path, destination: Site, there: Path, sent: Found, options: dict[str, object]
    ) -> str:
        """Submit, wait and compare; what is amiss in words."""
        paths = (f"{source.path(here)}/", f"{destination.path(there)}/")
        begun = time.monotonic()
        task_id = await self.submit(source, destination, paths, options)
        task = await self.wait(task_id)
        self.totals["tasks"] += 1
        self.totals["task seconds"] += int(time.monotonic() - begun)
        if task["status"] != "SUCCEEDED":
            self.totals["not succeeded"] += 1
            return f"it ended as {task['status']}: {task.get('fatal_error')}"
        self.totals["files"] += task["files"]
        self.totals["bytes"] += task["bytes_transferred"]
        self.totals["faults in tasks"] += task["faults"]
        arrived = await asyncio.to_thread(look_at, there)
        # A file that was in place before keeps its modification time.
        times = bool(options.get("preserve_timestamp")) and not task["files_skipped"]
        if times and await insist(lambda: has_event(self.api, task_id, TIMES_SKIPPED)):
            self.totals["tasks told that a time was refused"] += 1
            times = False
        amiss = compare(sent, arrived, times=times)
        for what, names in amiss.items():
            self.totals[what] += len(names)
        claims = await insist(lambda: audit(self.api, task, sent))
        self.totals["books that do not add up"] += bool(claims)
        return "; ".join([f"{what} {names[:3]}" for what, names in amiss.items()] + claims)

    async def submit(self, source: Site, destination: Site, paths: tuple[str, str], options: dict[str, object]) -> str:
        """Again and again under one submission id, until somebody says that it was taken: it counts once."""
        submission = (await insist(lambda: self.api.call("GET", "/submission_id")))["value"]
        document = {
            "DATA_TYPE": "transfer",
            "submission_id": submission,
            "source_endpoint": source.id,
            "destination_endpoint": destination.id,
            "DATA": [{"source_path": paths[0], "destination_path": paths[1], "recursive": True}],
            **options,
        }
        return str((await insist(lambda: self.api.call("POST", "/transfer", document)))["task_id"])

    async def wait(self, task_id: str) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT
        while True:
            task: dict[str, Any] = await insist(lambda: self.api.call("GET", f"/task/{task_id}"))
            if task["status"] != "ACTIVE" or time.monotonic() > end:
                return task
            await asyncio.sleep(0.3)

    async def unfinished(self) -> int:
        """Tasks that are left behind."""
        found = await insist(lambda: self.api.call("GET", "/task_list?filter=status:ACTIVE,INACTIVE&limit=1000"))
        return len(found["DATA"])


async def run(api: Api, root: Path, arguments: argparse.Namespace) -> None:
    fault_injection = FaultChooser(random.Random(arguments.seed), silences=max(1, arguments.tasks // 25))
    kinds = arguments.kinds.split(",")
    sites = [
        make_site(f"{kind}{number}", kind, root, fault_injection, data=number == 1)
        for kind, number in product(kinds, (1, 2))
    ]
    for site in sites:
        await site.open(api)
    soak = Soak(api, sites, fault_injection)
    begun = time.monotonic()
    storming = asyncio.create_task(storm(fault_injection, api, sites, arguments.between))
    until = begun + 60 * arguments.minutes
    async with asyncio.TaskGroup() as group:
        for _ in range(arguments.at_once):
            group.create_task(soak.work(arguments.tasks, until))
    storming.cancel()
    fault_injection.calm = True
    await asyncio.gather(storming, return_exceptions=True)
    left = await soak.unfinished()
    for site in sites:
        await site.close()
    print_summary(soak, left, time.monotonic() - begun, arguments.seed)


def print_summary(soak: Soak, left: int, seconds: float, seed: int) -> None:
    totals, counts = soak.totals, soak.fault_injection.counts
    out = sys.stdout.write
    out(f"\nThe soak, seed {seed} ({machine()})\n\n| | |\n|---|---|\n")
    out(f"| tasks | {totals['tasks']} |\n| files | {totals['files']} |\n| bytes | {totals['bytes']:,} |\n")
    mean = totals["task seconds"] / max(1, totals["tasks"])
    out(f"| seconds | {seconds:.0f} |\n| seconds of a task, mean | {mean:.1f} |\n")
    for name, count in sorted(counts.items()):
        out(f"| {name} | {count} |\n")
    out(f"| faults that tasks told of | {totals['faults in tasks']} |\n")
    for name in ("wrong", "lost", "left behind", "out of nowhere", "folders", "times", "books that do not add up"):
        out(f"| **{name}** | {totals[name]} |\n")
    out(f"| **tasks that did not succeed** | {totals['not succeeded']} |\n| **tasks left** | {left} |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=60.0, help="submit nothing after so many")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--between", type=float, default=3.0, help="seconds between two kills, in the mean")
    parser.add_argument("--kinds", default=",".join(ALL))
    arguments = parser.parse_args()
    with workplace() as root, instance() as api:
        asyncio.run(run(api, root, arguments))


if __name__ == "__main__":
    main()
