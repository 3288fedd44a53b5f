"""What tasks leave in the database: 300,000 items submitted, canceled and cleared away, round after round.

    python -m bench.space [--items 300000] [--rounds 3]

Sizes are `pg_total_relation_size` of a table: its rows, what was deleted of them, and its indexes. A table does not
grow from the second round on when what was deleted is used again. Nothing but the service's own jobs and PostgreSQL's
own autovacuum clears it.
"""

from __future__ import annotations

import argparse
import sys
import time
from urllib.parse import parse_qs, urlsplit

import psycopg2

from bench.instance import Api, instance
from bench.table import machine
from deploy.stack.embedded import embedded_environment

TABLES = ("tasks_item", "tasks_file", "tasks_event", "tasks_task")
PER_TASK = 100_000
PATIENCE = 600.0


class Database:
    def __init__(self, api: Api) -> None:
        url = urlsplit(embedded_environment(api.home)["DATABASE_URL"])
        host = parse_qs(url.query)["host"][0]
        self._connection = psycopg2.connect(
            host=host, user=url.username, password=url.password, dbname=url.path.lstrip("/")
        )
        self._connection.autocommit = True

    def one(self, query: str) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
            assert row is not None
            return int(row[0])

    def line(self, what: str, begun: float) -> None:
        sizes = [self.one(f"SELECT pg_total_relation_size('{table}')") / 1e6 for table in TABLES]
        kept = self.one("SELECT coalesce(sum(rows), 0) FROM tasks_space")
        cells = " | ".join(f"{size:.1f}" for size in sizes)
        sys.stdout.write(f"| {what} | {time.monotonic() - begun:.1f} | {kept} | {cells} |\n")
        sys.stdout.flush()

    def wait(self, query: str) -> None:
        """Until this is 0."""
        end = time.monotonic() + PATIENCE
        while self.one(query):
            if time.monotonic() > end:
                raise TimeoutError(query)
            time.sleep(0.5)

    def vacuumed(self, since: float) -> None:
        """Until autovacuum has been at the table of items."""
        self.wait(
            "SELECT count(*) FROM pg_stat_user_tables WHERE relname = 'tasks_item'"
            " AND n_dead_tup > 20000 + n_live_tup / 50"
            f" AND coalesce(last_autovacuum, '-infinity') < to_timestamp({since})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n\n| | s | rows kept | {' | '.join(f'{name} MB' for name in TABLES)} |\n")
    sys.stdout.write("|---|" + "---|" * (len(TABLES) + 2) + "\n")
    with instance() as api:
        database = Database(api)
        ends = [str(one["id"]) for one in api.call("GET", "/endpoint_search?filter_scope=my-endpoints")["DATA"]]
        database.line("at the beginning", time.monotonic())
        for number in range(1, options.rounds + 1):
            _round(api, database, (ends[0], ends[-1]), options.items, f"round {number}:")


def _round(api: Api, database: Database, ends: tuple[str, str], items: int, what: str) -> None:
    begun = time.monotonic()
    paths = [(f"/~/no/such/folder/file{n:06}", f"/~/no/other/folder/file{n:06}") for n in range(PER_TASK)]
    tasks = [
        api.transfer_items(*ends, paths[: min(PER_TASK, items - start)], skip_activation_check=True)
        for start in range(0, items, PER_TASK)
    ]
    database.line(f"{what} submitted", begun)
    canceled = time.monotonic()
    since = time.time()
    for task in tasks:
        api.call("POST", f"/task/{task}/cancel")
    database.wait("SELECT count(*) FROM tasks_task WHERE phase <> 'done'")
    database.line(f"{what} canceled", canceled)
    database.wait("SELECT count(*) FROM tasks_task WHERE phase = 'done' AND NOT tidied")
    database.line(f"{what} cleared away", canceled)
    database.vacuumed(since)
    database.line(f"{what} vacuumed by PostgreSQL itself", canceled)


if __name__ == "__main__":
    main()
