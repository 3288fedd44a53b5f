"""The space of tasks in the database: 300,000 items and as many files, canceled and deleted, in several rounds.

    python -m bench.database.space [--rows 300000] [--rounds 3]

Sizes are `pg_total_relation_size` of a table: its rows, what was deleted of them, and its indexes. A table does not
grow from the second round on when what was deleted is used again. Nothing clears it but `retention.give_back`, as the
workers call it, and PostgreSQL's own autovacuum. The database is one of our own, as `make up` sets it up.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
import uuid
from pathlib import Path

from bench.table import machine
from deploy.stack.postgres import Postgres

TABLES = ("tasks_item", "tasks_file", "tasks_event", "tasks_task")
#: Items of one task, and files of one batch.
PER_TASK, BATCH = 100_000, 1000
TIMEOUT = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        Path(folder).chmod(0o711)
        server = Postgres(Path(folder))
        server.start()
        try:
            _connect(server.url())
            _measure(options.rows, options.rounds)
        finally:
            server.stop()


def _connect(url: str) -> None:
    import django
    from django.core.management import call_command

    words = {"WAYBILL_SECRET_KEY": secrets.token_urlsafe(40), "DATABASE_URL": url, "WAYBILL_LOG_LEVEL": "ERROR"}
    os.environ.update(words, DJANGO_SETTINGS_MODULE="transferapi.settings")
    django.setup()
    call_command("migrate", verbosity=0)


def _measure(rows: int, rounds: int) -> None:
    from identity.models import User

    sys.stdout.write(f"{machine()}\n\n| | s | rows kept | {' | '.join(f'{name} MB' for name in TABLES)} |\n")
    sys.stdout.write("|---|" + "---|" * (len(TABLES) + 2) + "\n")
    user = User.objects.create(username="alice")
    ends = [_endpoint(user, name) for name in ("source", "destination")]
    _line("at the beginning", time.monotonic())
    for number in range(1, rounds + 1):
        _round(user, (ends[0], ends[1]), rows, f"round {number}:")


def _endpoint(user: object, name: str) -> str:
    from endpoints import registry
    from endpoints.registry import ServerSpec

    server = ServerSpec(f"{name}.example.org", 2811, "ftp")
    return str(registry.create(user, {"name": name}, [server]).pk)  # type: ignore[arg-type]  # imported in functions


def _round(user: object, ends: tuple[str, str], rows: int, what: str) -> None:
    from transferapi.tasks import moves
    from transferapi.tasks.models import Task
    from transferapi.tasks.upkeep import retention
    from transferapi.tasks.worker import slice_end
    from transferapi.tasks.worker.leases import Grant, acquire

    begun = time.monotonic()
    tasks = [_submit(user, ends, min(PER_TASK, rows - start)) for start in range(0, rows, PER_TASK)]
    _line(f"{what} items submitted", begun)
    begun = time.monotonic()
    grant = acquire(tasks[0], "bench")
    assert isinstance(grant, Grant)
    _find(grant.task_id, grant.epoch, rows)
    _line(f"{what} files found", begun)
    begun = time.monotonic()
    slice_end.fail(grant.task_id, grant.epoch, "CANCELED", "over")
    for task_id in tasks[1:]:
        moves.cancel(user, task_id)  # type: ignore[arg-type]
    while Task.objects.filter(phase="done", tidied=False).exists():
        retention.give_back()
    _line(f"{what} canceled, and cleared away", begun)
    _await_vacuum(time.time())
    _line(f"{what} vacuumed by PostgreSQL itself", begun)


def _submit(user: object, ends: tuple[str, str], items: int) -> uuid.UUID:
    from transferapi.tasks.submission import TransferItem, TransferRequest, submit_transfer

    paths = [TransferItem(f"/data/some/folder/file{n:06}", f"/archive/some/folder/file{n:06}") for n in range(items)]
    task, _ = submit_transfer(user, TransferRequest(uuid.uuid4(), *ends, paths))  # type: ignore[arg-type]
    return task.pk


def _find(task_id: uuid.UUID, epoch: int, rows: int) -> None:
    from transferapi.tasks.models import Item
    from transferapi.tasks.records import FoundFile
    from transferapi.tasks.worker import leases, scan_results

    item = Item.objects.filter(task=task_id).values_list("pk", flat=True)[0]
    for start in range(0, rows, BATCH):
        names = [f"run{start // 10000:03}/file{n:08}.dat" for n in range(start, start + BATCH)]
        found = [FoundFile(f"/data/project/{name}", f"/archive/project/{name}", 1, None) for name in names]
        scan_results.add_found(task_id, epoch, item, found)
        leases.heartbeat(task_id, epoch)


def _one(query: str) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


def _line(what: str, begun: float) -> None:
    sizes = [_one(f"SELECT pg_total_relation_size('{table}')") / 1e6 for table in TABLES]
    kept = _one("SELECT coalesce(sum(rows), 0) FROM tasks_space")
    cells = " | ".join(f"{size:.1f}" for size in sizes)
    sys.stdout.write(f"| {what} | {time.monotonic() - begun:.1f} | {kept} | {cells} |\n")
    sys.stdout.flush()


def _await_vacuum(since: float) -> None:
    """Wait until autovacuum has processed both large tables. Raises TimeoutError."""
    left = (
        "SELECT count(*) FROM pg_stat_user_tables WHERE relname IN ('tasks_item', 'tasks_file')"
        f" AND coalesce(last_autovacuum, '-infinity') < to_timestamp({since})"
    )
    end = time.monotonic() + TIMEOUT
    while _one(left):
        if time.monotonic() > end:
            raise TimeoutError("autovacuum did not come")
        time.sleep(1)


if __name__ == "__main__":
    main()
