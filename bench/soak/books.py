"""Checks a task that has ended: the trees, the documents and the database must agree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg2

from bench.soak.trees import Found
from deploy.stack.embedded import embedded_environment
from tests.instance import Api

#: The state of a file row that has arrived (transferapi/tasks/states.py).
DONE = 1


@contextmanager
def database(api: Api) -> Iterator[Any]:
    url = urlsplit(embedded_environment(api.home)["DATABASE_URL"])
    connection = psycopg2.connect(host=parse_qs(url.query)["host"][0], user=url.username, dbname=url.path.lstrip("/"))
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def compare(sent: Found, arrived: Found, *, times: bool) -> dict[str, list[str]]:
    """The wrong paths, by the kind of difference."""
    one, two = sent.hashes, arrived.hashes
    left = {path for path in two.keys() - one.keys() if path.rpartition("/")[2].startswith(".waybill-")}
    both = one.keys() & two.keys()
    amiss = {
        "wrong": [path for path in both if one[path] != two[path]],
        "lost": list(one.keys() - two.keys()),
        "left behind": list(left),
        "out of nowhere": list(two.keys() - one.keys() - left),
        "folders": list(sent.folders ^ arrived.folders),
        "times": [path for path in both if times and sent.files[path][1] != arrived.files[path][1]],
    }
    return {what: sorted(paths) for what, paths in amiss.items() if paths}


def audit(api: Api, task: dict[str, Any], sent: Found) -> list[str]:
    """The differences between the task's document, its rows and the transferred tree."""
    id_, count = task["task_id"], len(sent.files)
    with database(api) as cursor:
        cursor.execute(
            "SELECT state, count(*), count(DISTINCT destination_path) FROM tasks_file WHERE task_id = %s GROUP BY 1",
            [id_],
        )
        rows = {state: (number, distinct) for state, number, distinct in cursor.fetchall()}
        cursor.execute("SELECT worker FROM tasks_lease WHERE task_id = %s", [id_])
        holders = [worker for (worker,) in cursor.fetchall() if worker]
    # Files that a sync leaves alone are counted, and have no rows.
    done, passed_over = rows.get(DONE, (0, 0)), task["files_skipped"]
    claims = {
        f"files {task['files']}, in the tree {count}": task["files"] == count,
        f"rows {rows}": done[0] + passed_over == count and done[0] == done[1] and not rows.keys() - {DONE},
        f"files_transferred {task['files_transferred']}, rows {done[0]}": task["files_transferred"] == done[0],
        f"bytes_transferred {task['bytes_transferred']} of {sent.octets}": task["bytes_transferred"] >= sent.octets
        or passed_over > 0,
        f"successful_transfers of {done[0]}": _told(api, id_) == done[0],
        f"still held by {holders}": not holders,
    }
    return [words for words, true in claims.items() if not true]


def has_event(api: Api, task_id: str, code: str) -> bool:
    """Whether the task's history holds this event."""
    with database(api) as cursor:
        cursor.execute("SELECT count(*) FROM tasks_event WHERE task_id = %s AND code = %s", [task_id, code])
        return bool(cursor.fetchone()[0])


def _told(api: Api, task_id: str) -> int:
    """How many different files the list of successful transfers names; -1 when it names one twice."""
    names: list[str] = []
    marker: object = None
    while marker != "":
        page = api.call("GET", f"/task/{task_id}/successful_transfers" + (f"?marker={marker}" if marker else ""))
        names += [one["destination_path"] for one in page["DATA"]]
        marker = page.get("next_marker") or ""
    return len(names) if len(set(names)) == len(names) else -1
