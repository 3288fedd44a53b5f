"""Memory, processor and database connections of a running `make up` in which nothing happens.

    python -m bench.install.idle [--home FOLDER] [--seconds N]

Memory is the proportional set size (smaps_rollup in proc(5)): a page that several processes share counts once. The
processor time is that of all processes over N seconds. Connections are the sessions of PostgreSQL.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.table import machine
from deploy.stack.home import Home
from transferapi.config import CHECKOUT

SECONDS = 60.0
#: PostgreSQL names each process of a session so.
_SESSION = re.compile(rb"^postgres: \S+ \S+ \[")


@dataclass(frozen=True)
class Idle:
    """memory: MB (1,000,000 octets); processor: of one core, in percent."""

    memory: float
    processor: float
    connections: int
    processes: int

    def __str__(self) -> str:
        return (
            f"{self.memory:.0f} MB, {self.processor:.1f} % of a core, {self.connections} connections, "
            f"{self.processes} processes"
        )


def measure(supervisor: int, seconds: float = SECONDS) -> Idle:
    """Of the process and all below it. Raises OSError where it is gone, or its memory may not be read."""
    before = _ticks(tree(supervisor))
    time.sleep(seconds)
    found = tree(supervisor)
    if supervisor not in found:
        raise ProcessLookupError(f"process {supervisor} has ended")
    spent = sum(ticks - before.get(pid, 0) for pid, ticks in _ticks(found).items())
    sessions = [pid for pid in found if _SESSION.match(_read(pid, "cmdline"))]
    return Idle(
        memory=sum(map(_memory, found)) / 1e6,
        processor=100 * spent / os.sysconf("SC_CLK_TCK") / seconds,
        connections=len(sessions),
        processes=len(found),
    )


def tree(top: int) -> list[int]:
    """The process and all below it, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (status := _stat(int(entry.name))):
            children[int(status[1])].append(int(entry.name))
    found = [top] if Path(f"/proc/{top}").exists() else []
    for pid in found:
        found += children[pid]
    return found


def _ticks(pids: list[int]) -> dict[int, int]:
    statuses = {pid: _stat(pid) for pid in pids}
    return {pid: int(status[11]) + int(status[12]) for pid, status in statuses.items() if status}


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the third one on: the name before them may hold spaces. []: it has ended."""
    return _read(pid, "stat").rpartition(b")")[2].split()


def _memory(pid: int) -> int:
    """Octets; a process that has just ended has none."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0
    return 0


def _read(pid: int, name: str) -> bytes:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m bench.install.idle", description=(__doc__ or "").split("\n")[0])
    words.add_argument("--home", type=Path, default=Path(os.environ.get("WAYBILL_HOME", CHECKOUT / ".waybill")))
    words.add_argument("--seconds", type=float, default=SECONDS)
    given = words.parse_args()
    supervisor = Home(given.home).supervisor()
    if supervisor is None:
        sys.stderr.write(f"Waybill is not running in {given.home}\n")
        return 1
    sys.stdout.write(f"{measure(supervisor, given.seconds)} ({machine()})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
