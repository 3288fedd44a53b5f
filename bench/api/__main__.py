"""The cost of the REST API: GET of a task, a submission, a list of a million tasks, a folder of 100,000 entries.

python -m bench.api [--rounds 5] [--tasks 1000000] [--entries 100000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.table import machine

from .load import Load, once, request, run
from .service import Person, Web, person, web

#: Parallel clients: one for each web worker.
CLIENTS = 2
#: Tasks of one user before they are done: below the limit of pending tasks.
PENDING = 90
#: One in so many tasks belongs to the user that lists tasks.
SHARE = 10
VACUUMS = 30

LISTS = {
    "filter=status:ACTIVE,INACTIVE": "request_time DESC",
    "filter=status:SUCCEEDED/type:TRANSFER": "completion_time DESC",
    "filter=label:~run-*70": "request_time ASC",
    "filter=type:DELETE/request_time:2026-01-01,2026-06-30": "bytes_transferred DESC",
    "filter=type:TRANSFER,DELETE": "label ASC",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--entries", type=int, default=100_000)
    options = parser.parse_args()
    say(f"{machine()}; PostgreSQL, Redis, two gunicorn workers; {CLIENTS} clients\n")
    with web() as service:
        looks(service, options.rounds)
        submissions(service, options.rounds)
        lists(service, options.tasks, options.rounds)
        listings(service, options.entries, options.rounds)


def looks(service: Web, rounds: int) -> None:
    """GET /task/T, compared with a route of the same server that only looks up the token."""
    alice = person("looks")
    (task,) = submit(service, alice, 1)
    runs: dict[str, list[Load]] = {}
    for _ in range(rounds):
        for path in ("/v0.10/submission_id", f"/v0.10/task/{task}"):
            message = request("GET", path, alice.token)
            runs.setdefault(path.replace(task, "T"), []).append(run(service.port, [[message] * 500] * CLIENTS, 200))
    table("GET /task/T: p50 under 8 ms, at least 300/s", runs)


def submissions(service: Web, rounds: int) -> None:
    """POST /transfer with one item, compared with one that is refused because it has no item."""
    runs: dict[str, list[Load]] = {}
    for number in range(rounds):
        people = [person(f"submits{number}x{one}") for one in range(2 * CLIENTS)]
        empty = [[transfer(each, items=0)] * PENDING for each in people[:CLIENTS]]
        one = [[transfer(each) for _ in range(PENDING)] for each in people[CLIENTS:]]
        runs.setdefault("refused: no item", []).append(run(service.port, empty, 400))
        runs.setdefault("POST /transfer", []).append(run(service.port, one, 202))
    table("POST /transfer, one item: at least 100/s, p95 under 60 ms", runs)


def lists(service: Web, tasks: int, rounds: int) -> None:
    """Filtered and sorted pages of one user's tasks, compared with the user's newest ones in the default order."""
    alice = person("lists")
    fill(alice, person("others"), tasks)
    runs = {"(none)": pages(service, alice, "limit=100", rounds)}
    for condition, order in LISTS.items():
        query = f"limit=100&{condition}&orderby={quote(order)}"
        runs[f"{condition} {order}"] = pages(service, alice, query, rounds)
    say(f"\ntask_list?limit=100, one in {SHARE} of {tasks:,} tasks is the user's: p95 under 80 ms\n\n")
    say(f"| {'filter, order':<78} | p50 ms | p95 ms | p50 against the first |\n|---|---|---|---|\n")
    base = next(iter(runs.values())).median
    for name, load in runs.items():
        say(f"| {name:<78} | {load.median:6.1f} | {load.p95:6.1f} | {load.median / base:.2f} |\n")
    every = Load([one for name, load in runs.items() if name != "(none)" for one in load.seconds], 0)
    say(f"| {'all that filter and order':<78} | {every.median:6.1f} | {every.p95:6.1f} | {every.median / base:.2f} |\n")


def pages(service: Web, alice: Person, query: str, rounds: int) -> Load:
    message = request("GET", f"/v0.10/task_list?{query}", alice.token)
    return run(service.port, [[message] * (10 * rounds)] * CLIENTS, 200)


def fill(alice: Person, others: Person, count: int) -> None:
    """Tasks of the last two years, most of them done, as the engine would have left them; users alternate."""
    from django.db import connection

    people: dict[str, Any] = {"alice": alice.id, "others": others.id}
    places = {"source": alice.source, "target": alice.destination}
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout TO 0")
        cursor.execute(FILL, people | places | {"count": count, "share": SHARE})
        # Autovacuum leaves older tables so: their rows are known to be visible to all.
        for _ in range(VACUUMS):
            cursor.execute("VACUUM ANALYZE tasks_task")
            cursor.execute("SELECT relallvisible >= relpages * 0.99 FROM pg_class WHERE relname = 'tasks_task'")
            if cursor.fetchone()[0]:
                break
            time.sleep(1.0)
        else:
            raise RuntimeError("the table's rows are not visible to all: somebody holds an old snapshot")
        cursor.execute("RESET statement_timeout")


def listings(service: Web, entries: int, rounds: int) -> None:
    """ls of a folder, on our own server and on the toolkit's, against the same server's raw listing."""
    from tests.gridftp.toolkit import ToolkitServer

    say(f"\nls of {entries:,} entries: under 3 s and 300 MB (of one web worker)\n\n")
    say(f"| {'':<20} | median s | peak MB | answer MB |\n|---|---|---|---|\n")
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "many").mkdir()
        for number in range(entries):
            (root / "many" / f"observation-{number:06}.fits").touch()
        with ToolkitServer(root) as toolkit, OwnServer(root) as own_port:
            for name, port, path in (
                ("toolkit", toolkit.port, f"{root}/many/"),
                ("our own server", own_port, "/many/"),
            ):
                listed(service, name, person(f"ls-{name.replace(' ', '-')}", port), path, entries, rounds)


def listed(service: Web, name: str, alice: Person, path: str, entries: int, rounds: int) -> None:
    message = request("GET", f"/v0.10/operation/endpoint/{alice.source}/ls?path={quote(path)}", alice.token)
    seconds, body = [], b""
    service.forget_peaks()
    for _ in range(rounds):
        status, body, taken = once(service.port, message)
        if status != 200:
            raise RuntimeError(f"{status}: {body[:500]!r}")
        seconds.append(taken)
    peak = service.peak()
    if json.loads(body)["length"] != entries:
        raise RuntimeError("entries are missing")
    say(f"| {name:<20} | {statistics.median(seconds):8.2f} | {peak:7.0f} | {len(body) / 1e6:9.1f} |\n")


class OwnServer:
    """Our GridFTP server over a folder, as a process of its own; gives its port."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __enter__(self) -> int:
        import subprocess

        from deploy.stack.free_ports import free_port

        port = free_port()
        words = ["--root", str(self._root), "--host", "127.0.0.1", "--port", str(port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "endpoints.gridftp.server", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return port

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)


def submit(service: Web, owner: Person, count: int) -> Iterator[str]:
    for _ in range(count):
        status, body, _ = once(service.port, transfer(owner))
        if status != 202:
            raise RuntimeError(f"{status}: {body[:500]!r}")
        yield json.loads(body)["task_id"]


def transfer(owner: Person, items: int = 1) -> bytes:
    """A submission of files from one endpoint of this user to the other."""
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": str(uuid.uuid4()),
        "source_endpoint": owner.source,
        "destination_endpoint": owner.destination,
        "label": "bench",
        "DATA": [
            {"DATA_TYPE": "transfer_item", "source_path": f"/from/{number}", "destination_path": f"/to/{number}"}
            for number in range(items)
        ],
    }
    return request("POST", "/v0.10/transfer", owner.token, json.dumps(document).encode())


def table(title: str, runs: dict[str, list[Load]]) -> None:
    """Medians over the rounds; the other rows are compared with the first one."""
    median: Callable[[Iterator[float]], float] = statistics.median
    base = median(load.median for load in next(iter(runs.values())))
    say(f"\n{title}\n\n| {'':<24} | p50 ms | p95 ms | requests/s | p50 against the first |\n|---|---|---|---|---|\n")
    for name, loads in runs.items():
        half, most = median(load.median for load in loads), median(load.p95 for load in loads)
        rate = median(load.rate for load in loads)
        say(f"| {name:<24} | {half:6.2f} | {most:6.2f} | {rate:10.0f} | {half / base:.2f} |\n")


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


FILL = """
    INSERT INTO tasks_task (id, owner_id, type, status, phase, submission_id, label, source_id, destination_id,
        source_host_id, destination_host_id, options,
        request_time, deadline, deadline_is_fixed, completion_time, next_run_at, connection_failures, items_total,
        items_scanned, files, directories, symlinks, files_transferred, files_skipped, files_failed, bytes_total,
        bytes_transferred, bytes_checksummed, faults, skipped_errors, fatal_error_code, suspect_up_to,
        admin_pauses, history_deleted)
    SELECT gen_random_uuid(), CASE WHEN n %% %(share)s = 0 THEN %(alice)s ELSE %(others)s END::uuid, kind,
        CASE WHEN n %% 50 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 'done',
        gen_random_uuid(), CASE WHEN n %% 3 = 0 THEN 'run-' || n END, %(source)s::uuid,
        CASE kind WHEN 'TRANSFER' THEN %(target)s::uuid END, %(source)s::uuid,
        CASE kind WHEN 'TRANSFER' THEN %(target)s::uuid END, '{}', asked, asked + interval '1 day', false,
        asked + interval '10 min', asked, 0, 1, 1, n %% 1000, 0, 0, n %% 1000, 0, 0, 0, n::bigint * 4096, 0, 0, 0,
        CASE WHEN n %% 50 = 0 THEN 'CANCELED' END, 0, '{}', true
    FROM (SELECT n, CASE WHEN n %% 7 = 0 THEN 'DELETE' ELSE 'TRANSFER' END AS kind,
            now() - n * interval '2 years' / %(count)s AS asked
        FROM generate_series(1, %(count)s) AS n) AS rows
"""

if __name__ == "__main__":
    main()
