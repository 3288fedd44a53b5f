"""A task of 1,000,000 files between two toolkit servers on loopback: the memory of the workers while it runs, and what
share of the machine's work is the database's.

    python -m bench.transfers.million [--files 1000000] [--size 100] [--plot memory.svg]

Memory is that of the largest worker process, twice a second: its resident set, and what of it no other process shares.
The roles of an instance are forked, and so most of a resident set is shared. The database's share is the seconds of
processor that all of PostgreSQL's processes used, of the time that the task took on all cores: it grows when the rest
gets faster. Beside it stands what each part used of what all parts used, and for each file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.place import workplace
from bench.table import machine
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, instance, seconds_until_settled

PER_FOLDER = 1000
TICKS = os.sysconf("SC_CLK_TCK")
MB = 10**6
#: The limits of the issue.
MEMORY_BAR, SHARE_BAR = 300.0, 0.10


@dataclass(frozen=True)
class Sample:
    """Seconds since the submission, files that have arrived by the task's word, MB of the largest worker: resident,
    and its own."""

    at: float
    files: int
    memory: float
    own: float


@dataclass
class Usage:
    """Seconds of processor by group, of processes that may end meanwhile: the last that was seen of each counts."""

    before: dict[tuple[str, int], float] = field(default_factory=dict)
    last: dict[tuple[str, int], float] = field(default_factory=dict)

    def look(self, session_of: int) -> None:
        is_first = not self.last
        for pid in _descendants(session_of):
            if (found := _process(pid)) is not None:
                group, seconds = found
                self.before.setdefault((group, pid), seconds if is_first else 0.0)
                self.last[group, pid] = seconds

    def by_group(self) -> dict[str, float]:
        spent: dict[str, float] = defaultdict(float)
        for (group, pid), seconds in self.last.items():
            spent[group] += seconds - self.before[group, pid]
        return dict(spent)


def _process(pid: int) -> tuple[str, float] | None:
    """The part of the system that a process belongs to, and its seconds of processor; None if it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        # The roles are forked, and have a name of their own.
        role = Path(f"/proc/{pid}/comm").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    seconds = (int(fields[11]) + int(fields[12])) / TICKS
    for name, group in (("worker", "workers"), ("web", "web")):
        if role.startswith(name):
            return group, seconds
    for mark, group in (("postgres", "database"), ("globus-gridftp-server", "servers"), ("redis", "queue")):
        if mark in words:
            return group, seconds
    return None


def _descendants(root: int) -> Iterator[int]:
    parents: dict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents[parent].append(int(path.name))
    stack = [root]
    while stack:
        children = parents.get(stack.pop(), [])
        yield from children
        stack += children


def memory_of_workers(api: Api) -> tuple[float, float]:
    """MB of the largest worker process: resident, and of them its own, which no other process shares."""
    sizes = [(0.0, 0.0)]
    for name, pid in api.connection["pids"].items():
        if name.startswith("worker"):
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            # "Rss:   141932 kB" after a first line with addresses; see proc_pid_smaps(5).
            kib = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
            sizes.append((kib["Rss"] * 1024 / MB, (kib["Private_Clean"] + kib["Private_Dirty"]) * 1024 / MB))
    return max(sizes)


def make_tree(folder: Path, files: int, size: int) -> None:
    """Files that all differ, a thousand to a folder."""
    body = os.urandom(size)
    for number in range(0, files, PER_FOLDER):
        inner = folder / f"{number // PER_FOLDER:05d}"
        inner.mkdir(parents=True)
        for index in range(number, min(files, number + PER_FOLDER)):
            (inner / f"{index:07d}").write_bytes(index.to_bytes(8, "big") + body[8:])


def check(source: Path, destination: Path, files: int) -> None:
    """Every file arrived, bit for bit, and no other."""
    seen = 0
    for folder in destination.iterdir():
        for path in folder.iterdir():
            seen += 1
            if path.read_bytes() != (source / folder.name / path.name).read_bytes():
                raise RuntimeError(f"{path} is wrong")
    if seen != files:
        raise RuntimeError(f"{seen} files arrived of {files}")


def watch(api: Api, task_id: str, begun: float, usage: Usage) -> tuple[dict[str, Any], list[Sample]]:
    """Look twice a second until the task has ended."""
    samples: list[Sample] = []
    while True:
        task = api.call("GET", f"/task/{task_id}?fields=status,files_transferred,task_id,fatal_error,faults")
        samples.append(Sample(time.time() - begun, int(task["files_transferred"]), *memory_of_workers(api)))
        usage.look(os.getpid())
        if task["status"] != "ACTIVE":
            return task, samples
        if len(samples) % 20 == 0:
            last = samples[-1]
            sys.stderr.write(f"{last.at:6.0f} s  {last.files:8d} files  {last.memory:6.1f} MB\n")
        time.sleep(0.5)


def plot(samples: list[Sample], path: Path) -> None:
    """Memory of the largest worker over the time, as SVG."""
    width, height, left, bottom = 720, 300, 60, 40
    end = samples[-1].at
    x = [left + (width - left - 20) * one.at / end for one in samples]
    y = [height - bottom - (height - bottom - 20) * one.memory / MEMORY_BAR for one in samples]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    marks = "".join(
        f'<text x="{left - 8}" y="{height - bottom - (height - bottom - 20) * m / MEMORY_BAR + 4:.0f}" '
        f'text-anchor="end">{m:.0f} MB</text>'
        for m in (0, 100, 200, 300)
    )
    times = "".join(
        f'<text x="{left + (width - left - 20) * s:.0f}" y="{height - 15}" text-anchor="middle">{end * s:.0f} s</text>'
        for s in (0, 0.25, 0.5, 0.75, 1)
    )
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>'
        f'<rect x="{left}" y="20" width="{width - left - 20}" height="{height - bottom - 20}" fill="none" '
        f'stroke="#999"/>{marks}{times}<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="2"/>'
        f'<text x="{left + 8}" y="36">resident memory of the largest worker process, {samples[-1].files} files</text>'
        "</svg>\n"
    )


def report(files: int, seconds: float, samples: list[Sample], usage: Usage) -> None:
    out = sys.stdout.write
    spent = usage.by_group()
    total = sum(spent.values()) or 1.0
    tenth = max(1, len(samples) // 10)
    out(f"\n{files} files in {seconds:.0f} s, {files / seconds:.0f} a second ({machine()})\n\n")
    out("| seconds | files arrived | largest worker, MB resident | its own |\n|---|---|---|---|\n")
    for one in [*samples[::tenth], samples[-1]]:
        out(f"| {one.at:.0f} | {one.files} | {one.memory:.1f} | {one.own:.1f} |\n")
    peak, own = max(one.memory for one in samples), max(one.own for one in samples)
    out(f"\nPeak {peak:.0f} MB (bar {MEMORY_BAR:.0f}), of them {own:.0f} MB its own.\n\n")
    out("| part | seconds of processor | share | microseconds for each file |\n|---|---|---|---|\n")
    for group, used in sorted(spent.items(), key=lambda pair: -pair[1]):
        out(f"| {group} | {used:.1f} | {used / total:.1%} | {used / files * 1e6:.0f} |\n")
    share = spent.get("database", 0.0) / (seconds * (os.cpu_count() or 1))
    out(f"\nThe database's share of the time is {share:.1%} (bar {SHARE_BAR:.0%}).\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100, help="octets of each file")
    parser.add_argument("--plot", type=Path, help="where to put the memory curve, as SVG")
    arguments = parser.parse_args()
    with workplace() as root:
        source, destination = root / "source", root / "destination"
        make_tree(source, arguments.files, arguments.size)
        destination.mkdir()
        hand_over(destination, stop_at=root.parent)
        with ToolkitServer(root) as one, ToolkitServer(root) as two, instance() as api:
            ids = api.endpoint("million1", one.port), api.endpoint("million2", two.port)
            usage = Usage()
            usage.look(os.getpid())
            begun = time.time()
            task_id = api.transfer(ids[0], f"{source}/", ids[1], f"{destination}/", recursive=True)
            task, samples = watch(api, task_id, begun, usage)
            seconds = seconds_until_settled(api, task, begun)
        check(source, destination, arguments.files)
        report(arguments.files, seconds, samples, usage)
        if arguments.plot:
            plot(samples, arguments.plot)
        shutil.rmtree(source)


if __name__ == "__main__":
    main()
