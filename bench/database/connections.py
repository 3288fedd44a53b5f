"""The connections to PostgreSQL of each process: without work, and with more work than it has threads for.

    python -m bench.database.connections [--idle 60] [--load 30]

An instance as `make up` starts it. The load is 40 clients that ask for lists of tasks, and 60 tasks that copy the
sample data. Sessions are counted four times a second by their application_name; the numbers are the most at one time.
Before the measurement the connections of the start are closed (`shared_connections.IDLE_SECONDS`).
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.table import machine
from tests.instance import Api, database, instance

CLIENTS, TASKS = 40, 60
SETTLE_SECONDS, PAUSE = 30.0, 0.25
NEEDED = """SELECT kind, (gauges->>'connections_most')::int FROM tasks_serviceprocess"""
SESSIONS = """
    SELECT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND usesysid IS NOT NULL AND pid <> pg_backend_pid()"""
ALL = "all"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--load", type=float, default=30.0, metavar="SECONDS")
    options = parser.parse_args()
    with instance(WAYBILL_RATE_LIMIT="0") as api:
        time.sleep(SETTLE_SECONDS)
        idle = most_sessions(api, options.idle)
        with load(api):
            busy = most_sessions(api, options.load)
        with database(api) as cursor:
            cursor.execute(NEEDED)
            bounds = dict(cursor.fetchall())
    print_sessions(idle, busy, bounds)


def most_sessions(api: Api, seconds: float) -> Counter[str]:
    """The most sessions of each process at one time, and of all."""
    most: Counter[str] = Counter()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with database(api) as cursor:
            cursor.execute(SESSIONS)
            found = Counter(name for (name,) in cursor.fetchall())
        found[ALL] = found.total()
        most |= found
        time.sleep(PAUSE)
    return most


@contextmanager
def load(api: Api) -> Iterator[None]:
    stop = threading.Event()
    threads = [
        threading.Thread(target=_repeat, args=(stop, lambda: api.call("GET", "/task_list"))) for _ in range(CLIENTS)
    ]
    threads.append(threading.Thread(target=_submit, args=(api,)))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _repeat(stop: threading.Event, ask: Callable[[], object]) -> None:
    while not stop.is_set():
        ask()


def _submit(api: Api) -> None:
    connection = api.connection
    source, destination = (connection["endpoints"][f"go#{name}"] for name in ("ep1", "ep2"))
    for number in range(TASKS):
        api.transfer(source, "/", destination, f"/copy-{number}/", recursive=True)


def print_sessions(idle: Counter[str], busy: Counter[str], bounds: dict[str, int]) -> None:
    out = sys.stdout.write
    out(f"\nConnections to PostgreSQL ({machine()})\n\n")
    out("| process | without work | with load | at most |\n|---|---|---|---|\n")
    for name in sorted({*idle, *busy} - {ALL}):
        words = name.split()
        bound = bounds.get(words[1], "") if len(words) > 1 else ""
        out(f"| {' '.join(words[:2])} | {idle[name]} | {busy[name]} | {bound} |\n")
    out(f"| all | {idle[ALL]} | {busy[ALL]} | |\n")


if __name__ == "__main__":
    main()
