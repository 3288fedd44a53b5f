"""The statements of the worker's store read as many rows as their batch has, whatever PostgreSQL knows of the tables.

PostgreSQL counts the rows of a table once a minute at most (autovacuum), and a scan writes ten thousand in a second.
Each function of the store runs here on a task of 50,000 files and items. Before each of its statements, the statement
runs under EXPLAIN ANALYZE, which counts the rows that every part of the plan has read or compared; then it is undone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from django.db import connection, transaction

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, take
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Item, Lease
from transferapi.tasks.records import (
    CLEAR,
    DIRECT,
    Checksum,
    DataProtection,
    DataWay,
    FaultedFile,
    FaultedItem,
    FileRow,
    FoundFile,
    ItemRow,
    PartialFile,
    SettledFile,
    Settlement,
    SkippedSource,
    SliceMeasurement,
)
from transferapi.tasks.worker import (
    agent_waits,
    leases,
    measurements,
    pending_files,
    protection,
    scan_results,
    settling,
    slice_end,
    troubles,
)

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

ROWS, BATCH = 50_000, 1000
#: Rows that one statement may read or compare, for each row of the largest batch: a plan has a dozen parts at most.
EACH = 16
NOW = datetime.now(UTC)
MODULES = (
    agent_waits,
    leases,
    measurements,
    pending_files,
    protection,
    scan_results,
    settling,
    slice_end,
    troubles,
)
DENIED = Fault(Kind.PERMISSION_DENIED, Side.SOURCE, advice="Change the permissions.", raw="550 Permission denied")
AWAY = Fault(Kind.AGENT_AWAY, Side.DESTINATION, raw="away")
BROKEN = Fault(Kind.CONNECTION_BROKEN, Side.SOURCE, scope=FaultScope.ENDPOINT, raw="reset")

#: A table that was never analyzed; one that was when it had no row, or a few; and one whose statistics are right.
STATISTICS = ("none", "of no rows", "of ten rows", "right")

#: As a scan computes them.
KEYS = [scan_results.file_key(f"/1/{n}") for n in range(1, ROWS + 1)]
_FILES = """
    INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state, attempts, ranges,
        bytes_done, next_try_at)
    SELECT %(task)s, %(item)s, 0, convert_to('/one/' || n, 'UTF8'), convert_to('/1/' || n, 'UTF8'),
        key, 1000 + n %% 7, 0, 0, '', 0,
        CASE WHEN n %% 3 = 0 THEN now() - interval '1 hour' END
    FROM unnest(%(keys)s::bytea[]) WITH ORDINALITY AS file(key, n)"""
_ITEMS = """
    INSERT INTO tasks_item (task_id, position, source_path, destination_path, recursive, attempts, extra)
    SELECT %(task)s, n, convert_to('/item/' || n, 'UTF8'), convert_to('/to/' || n, 'UTF8'), false, 0, '{}'
    FROM generate_series(1, %(rows)s) AS n"""


def run(statement: str, **parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)


def forget_statistics() -> None:
    """As for tables that were never analyzed (pg_class, pg_statistic); undone with the transaction of the test."""
    run("UPDATE pg_class SET reltuples = -1 WHERE relname LIKE 'tasks\\_%'")
    run("DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'tasks\\_%')")


class World:
    """A task with many files and items, and rows of both for a batch."""

    def __init__(self, owner: User, source: Endpoint, destination: Endpoint, statistics: str) -> None:
        self.task = submit(owner, source, destination, ("/one/", "/1/"))
        item = Item.objects.get(task=self.task)
        if statistics in ("none", "of no rows"):
            forget_statistics()
        if statistics == "of no rows":
            run("DELETE FROM tasks_file")
            run("ANALYZE tasks_file, tasks_item")
        sizes = (10, ROWS) if statistics == "of ten rows" else (ROWS,)
        for number, rows in enumerate(sizes):
            if number:
                run("ANALYZE tasks_file, tasks_item; DELETE FROM tasks_file; DELETE FROM tasks_item WHERE position > 0")
            run(_FILES, task=str(self.task.pk), item=item.pk, keys=KEYS[:rows])
            run(_ITEMS, task=str(self.task.pk), rows=rows)
        if statistics == "right":
            run("ANALYZE tasks_file, tasks_item")
        # Another task has as many files behind those of this one.
        run(_FILES, task=str(submit(owner, source, destination).pk), item=item.pk, keys=KEYS)
        self.grant = take(self.task)
        self.key = (self.task.pk, self.grant.epoch)
        self.item: ItemRow = scan_results.unscanned(*self.key, 1)[0]
        self.files: list[FileRow] = pending_files.pending(*self.key, 3 * BATCH)
        self.items: list[ItemRow] = scan_results.unscanned(*self.key, 2 * BATCH, [self.item.id])

    @property
    def found(self) -> list[FoundFile]:
        return [FoundFile(f"/new/{n}", f"/there/{n}", 10, None, checksum=Checksum("MD5", "")) for n in range(BATCH)]

    @property
    def found_before(self) -> list[FoundFile]:
        return [FoundFile(file.source_path, file.destination_path, file.size, None) for file in self.files[:BATCH]]

    @property
    def settlement(self) -> Settlement:
        first, second, third = (self.files[n : n + BATCH] for n in (0, BATCH, 2 * BATCH))
        tried = [FaultedFile(file, DENIED, NOW, "0-10") for file in third[::2]]
        given_up = [FaultedFile(file, DENIED, None) for file in third[1::2]]
        return Settlement(
            settled=[SettledFile(file, file.size) for file in first],
            progress=[PartialFile(file, "0-10", 10) for file in second],
            faulted=[*tried, *given_up],
        )

    @property
    def faulted_items(self) -> list[FaultedItem]:
        return [FaultedItem(item, DENIED, NOW if n % 2 else None) for n, item in enumerate(self.items[:BATCH])]

    def named(self, files: Sequence[FileRow]) -> list[FileRow]:
        return [file._replace(temporary_path=f"/1/.waybill-{file.id:020}") for file in files]

    def all_done(self) -> None:
        """Nothing is left to do."""
        run("UPDATE tasks_file SET state = 1, settled_at = now(), next_try_at = NULL")
        run("UPDATE tasks_item SET scanned_at = now()")
        run("UPDATE tasks_task SET items_scanned = items_total")

    def lost(self) -> None:
        Lease.objects.update(expires_at=NOW - timedelta(hours=1))


def _found_items(world: World) -> list[tuple[ItemRow, FoundFile]]:
    return list(zip(world.items[:BATCH], world.found, strict=True))


def _skipped(world: World) -> list[SkippedSource]:
    return [SkippedSource(f"/s/{n}", f"/d/{n}", 0, DENIED) for n in range(BATCH)]


_MEASURED = SliceMeasurement(1.0, 10, 10, 0, None, 2, 1, 20, whole=False)

#: Every function of the store that reads or writes rows, by its name.
ACTIONS: dict[str, Callable[[World], object]] = {
    "scan_results.unscanned": lambda w: scan_results.unscanned(*w.key, BATCH, [item.id for item in w.items]),
    "scan_results.add_found": lambda w: scan_results.add_found(*w.key, w.item.id, w.found),
    "scan_results.add_found, again": lambda w: scan_results.add_found(*w.key, w.item.id, w.found_before),
    "scan_results.has_found": lambda w: scan_results.has_found(*w.key, w.item.id),
    "scan_results.items": lambda w: scan_results.items(*w.key, w.items[10].id, BATCH),
    "scan_results.known": lambda w: scan_results.known(
        *w.key, [str(file.destination_path) for file in w.files[:BATCH]]
    ),
    "scan_results.item_scanned": lambda w: scan_results.item_scanned(*w.key, w.item.id, 1, 1),
    "scan_results.file_items_scanned": lambda w: scan_results.file_items_scanned(*w.key, _found_items(w)),
    "settling.write": lambda w: settling.write(*w.key, w.settlement),
    "settling.items_faulted": lambda w: settling.items_faulted(*w.key, w.faulted_items),
    "settling.skip_sources": lambda w: settling.skip_sources(*w.key, w.item.id, _skipped(w)),
    "pending_files.pending": lambda w: pending_files.pending(*w.key, BATCH, [file.id for file in w.files[:BATCH]]),
    "pending_files.begun": lambda w: pending_files.begun(*w.key, BATCH),
    "pending_files.write_temporary_paths": lambda w: pending_files.write_temporary_paths(
        *w.key, w.named(w.files[:BATCH])
    ),
    "pending_files.source_changed": lambda w: pending_files.source_changed(*w.key, w.files[:BATCH]),
    "pending_files.arrived": lambda w: pending_files.arrived(*w.key, w.files[0].id, w.files[-1].id, BATCH),
    "pending_files.send_again": lambda w: pending_files.send_again(*w.key, w.files[:BATCH]),
    "pending_files.counts": lambda w: pending_files.counts(*w.key),
    "troubles.endpoint_failed": lambda w: troubles.endpoint_failed(*w.key, BROKEN, NOW),
    "troubles.reached": lambda w: troubles.reached(*w.key, [Side.SOURCE], lanes=True),
    "protection.note": lambda w: protection.note(*w.key, DataProtection(CLEAR, Side.SOURCE, "says nothing", "", "")),
    "protection.note_way": lambda w: protection.note_way(*w.key, DataWay(DIRECT, "")),
    "measurements.add_event": lambda w: measurements.add_event(*w.key, NewEvent("STARTED", "It began.")),
    "measurements.learn": lambda w: measurements.learn(w.task.pk, {"known": 1}, _MEASURED),
    "slice_end.finish": lambda w: slice_end.finish(*w.key),
    "slice_end.fail": lambda w: slice_end.fail(*w.key, "EXPIRED", "The deadline has passed."),
    "slice_end.suspend": lambda w: slice_end.suspend(*w.key, replace(DENIED, kind=Kind.NO_CREDENTIALS)),
    "slice_end.release": lambda w: slice_end.release(*w.key, NOW),
    "agent_waits.wait": lambda w: agent_waits.wait(*w.key, AWAY, NOW + timedelta(hours=1)),
    "leases.acquire": lambda w: leases.acquire(w.task.pk, "heir"),
    "leases.heartbeat": lambda w: leases.heartbeat(*w.key),
}
#: Called before the action of this name.
FIRST: dict[str, Callable[[World], None]] = {
    "slice_end.finish": World.all_done,
    "pending_files.arrived": World.all_done,
    "pending_files.send_again": World.all_done,
    "leases.acquire": World.lost,
}
#: Called seldom, when nothing else is to be done: rows that the plan may pass on from part to part.
ONCE = {"pending_files.begun": 2 * ROWS, "pending_files.counts": 2 * ROWS + 5 * pending_files.PENDING_COUNTED}


def rows_read(plan: dict[str, Any]) -> float:
    """The rows that this part of a plan and those below have returned, left out, or compared."""
    out = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
    mine = plan["Actual Rows"] + sum(plan.get(name, 0) for name in out)
    return float(mine * plan["Actual Loops"]) + sum(map(rows_read, plan.get("Plans", ())))


def drawn(plan: dict[str, Any], depth: int = 1) -> Iterator[str]:
    """The parts of a plan, a line each."""
    where = plan.get("Index Name") or plan.get("CTE Name") or plan.get("Subplan Name") or ""
    what = f"{plan['Node Type']} {where} {plan.get('Index Cond', '')[:60]}"
    yield f"{'  ' * depth}{what}: {plan['Actual Rows']} x {plan['Actual Loops']} (expected: {plan['Plan Rows']})"
    for part in plan.get("Plans", ()):
        yield from drawn(part, depth + 1)


@contextmanager
def explained(limit: float) -> Iterator[list[str]]:
    """Explain each statement before it is executed. Yields the statements that read more than `limit` rows."""
    found: list[str] = []

    def explain(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: Any) -> Any:
        settings, _, statement = sql.rpartition("; ")
        if not statement.lstrip().upper().startswith(("SELECT", "UPDATE", "INSERT", "DELETE", "WITH", "(")):
            return execute(sql, parameters, many, context)
        with transaction.atomic(), connection.connection.cursor() as cursor:
            if settings:
                cursor.execute(settings, parameters if "%(" in settings else None)
            # A statement of a plan that fits badly would take minutes.
            cursor.execute("SET LOCAL statement_timeout TO 5000; SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}", parameters)
            [(answer,)] = cursor.fetchall()
            cursor.execute("ROLLBACK TO SAVEPOINT explained; SET LOCAL statement_timeout TO 60000")
        rows = rows_read(answer[0]["Plan"])
        if rows > limit:
            found.append(
                "\n".join([f"{rows:.0f} rows: {' '.join(statement.split())[:100]}", *drawn(answer[0]["Plan"])])
            )
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(explain):
        yield found


@pytest.mark.parametrize("statistics", STATISTICS)
def test_each_statement_reads_the_rows_of_its_batch_whatever_the_statistics_say(
    alice: User, ep1: Endpoint, ep2: Endpoint, statistics: str
) -> None:
    world = World(alice, ep1, ep2, statistics)
    too_many: list[str] = []
    for name, action in ACTIONS.items():
        with transaction.atomic():
            try:
                FIRST.get(name, lambda _: None)(world)
                with explained(EACH * BATCH + ONCE.get(name, 0)) as found:
                    action(world)
                too_many += [f"{name}: {what}" for what in found]
            except Exception as error:  # the next ones say more
                too_many.append(f"{name}: {type(error).__name__} {error}")
            transaction.set_rollback(True)
    assert not too_many, "\n".join(too_many)


def _takes_a_lease(function: Callable[..., object]) -> bool:
    return [*inspect.signature(function).parameters][:2] == ["task_id", "epoch"]


def _functions(module: ModuleType) -> list[str]:
    own = inspect.getmembers(module, inspect.isfunction)
    short = module.__name__.rpartition(".")[2]
    public = [(name, one) for name, one in own if one.__module__ == module.__name__ and not name.startswith("_")]
    return [f"{short}.{name}" for name, one in public if _takes_a_lease(one)]


def test_no_function_of_the_store_is_left_out() -> None:
    there = {name for module in MODULES for name in _functions(module)}
    assert there - {"leases.hold", "leases.read_held"} <= {name.partition(",")[0] for name in ACTIONS}
