"""The time in which nobody works on a task whose worker is killed, or stopped as where workers are scaled down.

    python -m bench.recovery.takeover [--runs 5]
    python -m bench.recovery.takeover --scale [--runs 5]

Starts an instance as `make up` does, submits a task that hangs at a silent server, kills the process that holds it
(SIGKILL), and waits for another one to take it: alone, and together with the process that rings for it where a version
has one (beat). With --scale, the process gets SIGTERM, and tasks of the same user that came later wait for its place.
The truth is the lease's row.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import parse_qs, urlsplit

import psycopg2

from bench.table import print_table
from deploy.stack.embedded import embedded_environment
from tests.instance import Api, instance

LIMIT = 120.0
#: Tasks of one user that come later: three run at a time, so some of them wait.
LATER = 6
#: The bars, in seconds: takeover, and the move of slices where workers are scaled down.
KILLED_BAR, SCALED_BAR = 6.0, 5.0


@contextmanager
def silence() -> Iterator[int]:
    """The port of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


class Leases:
    """The holder of a task, by the database."""

    def __init__(self, api: Api) -> None:
        url = urlsplit(embedded_environment(api.home)["DATABASE_URL"])
        self._connection = psycopg2.connect(
            host=parse_qs(url.query)["host"][0], user=url.username, dbname=url.path.lstrip("/")
        )
        self._connection.autocommit = True

    def close(self) -> None:
        self._connection.close()

    def holder(self, task: str) -> int:
        """The pid; 0: nobody."""
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT worker FROM tasks_lease WHERE task_id = %s", [task])
            row = cursor.fetchone()
        return int(row[0].rpartition(":")[2]) if row and row[0] else 0

    def taken(self, task: str, but: int = 0) -> int:
        """Wait until a process other than `but` holds it. Raises TimeoutError."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            if (pid := self.holder(task)) not in (0, but):
                return pid
            time.sleep(0.02)
        raise TimeoutError(f"nobody took the task over within {LIMIT:g} s")


def run(
    api: Api,
    leases: Leases,
    ends: tuple[str, str],
    *,
    with_beat: bool = False,
    how: int = signal.SIGKILL,
    later: int = 0,
) -> float:
    """Seconds from the signal to the new lease. later: tasks of the same user that come after it."""
    task = api.transfer(ends[0], "/from", ends[1], "/to")
    killed = leases.taken(task)
    others = [api.transfer(ends[0], "/from", ends[1], f"/other/{number}") for number in range(later)]
    begun = time.monotonic()
    beat = api.connection["pids"].get("beat")
    for pid in (killed, *([beat] if with_beat and beat else [])):
        os.kill(pid, how)
    leases.taken(task, but=killed)
    seconds = time.monotonic() - begun
    for one in (task, *others):
        api.call("POST", f"/task/{one}/cancel")
    for one in (task, *others):
        api.wait(one)
    return seconds


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery.takeover", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="of each kind (default: %(default)s)")
    parser.add_argument("--scale", action="store_true", help="stop the worker by SIGTERM")
    options = parser.parse_args(words)
    times: dict[str, list[float]] = {}
    with silence() as port, instance() as api, closing(Leases(api)) as leases:
        ends = api.endpoint("silent1", port), api.endpoint("silent2", port)
        if options.scale:
            times["stopped"] = [run(api, leases, ends, how=signal.SIGTERM, later=LATER) for _ in range(options.runs)]
        else:
            for name, with_beat in (("holder", False), ("holder and beat", True)):
                times[name] = [run(api, leases, ends, with_beat=with_beat) for _ in range(options.runs)]
    print_table("From the signal until another worker holds the task", "s", times, next(iter(times)))
    bar = SCALED_BAR if options.scale else KILLED_BAR
    longest = max(seconds for runs in times.values() for seconds in runs)
    print(f"\nbar: {bar:g} s, {'kept' if longest <= bar else 'missed'}; load: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
