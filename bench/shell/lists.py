"""A list of 1,000,000 lines on the standard input of `ssh HOST transfer`: lines a second, and memory of the shell.

    python -m bench.shell.lists [--lines 1000000]

The time is that of the whole call of OpenSSH, from its start until the task id is printed: every line was checked, and
all are in the database. Memory is the largest resident set of the process of the shell, before and after the call.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from bench.shell.__main__ import Shell
from bench.table import machine
from tests.instance import Api, instance

MB = 10**6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    count = parser.parse_args().lines
    with instance() as api, tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        shell = Shell(api, Path(folder))
        # The first call imports and connects.
        _submit(shell, 1)
        before = _peak(api)
        seconds, task = _submit(shell, count)
        sys.stdout.write(f"{machine()}\n")
        sys.stdout.write(f"{count} lines: {seconds:.1f} s, {count / seconds:.0f} lines/s\n")
        sys.stdout.write(f"largest memory of the shell: {before:.0f} MB before, {_peak(api):.0f} MB after\n")
        _check(api, task, count)


def _submit(shell: Shell, count: int) -> tuple[float, str]:
    """Seconds, and the id of the task, which is canceled."""
    begun = time.perf_counter()
    with subprocess.Popen(shell.words("transfer"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdin is not None
        lines = _lines(count)
        while part := b"".join(islice(lines, 5000)):
            client.stdin.write(part)
        told, _ = client.communicate()
    seconds = time.perf_counter() - begun
    if client.returncode:
        raise RuntimeError(f"ssh ended with {client.returncode}")
    task = told.decode().removeprefix("Task ID: ").strip()
    shell.run("cancel", task)
    return seconds, task


def _lines(count: int) -> Iterator[bytes]:
    for number in range(count):
        name = f"project/run/{number % 1000:04}/file{number:07}.dat"
        yield f"go#ep1/~/{name} go#ep2/~/{name}\n".encode()


def _peak(api: Api) -> float:
    """The largest resident set of the shell's process so far, in MB."""
    status = Path(f"/proc/{api.connection['pids']['shell']}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / MB


def _check(api: Api, task: str, count: int) -> None:
    events = api.call("GET", f"/task/{task}/event_list?limit=1000")["DATA"]
    if f"with {count} item(s)" not in events[-1]["description"]:
        raise RuntimeError(f"the task has another number of items: {events[-1]['description']}")


if __name__ == "__main__":
    main()
