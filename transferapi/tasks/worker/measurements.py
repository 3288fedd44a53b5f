"""Records that slices leave: events, the tuner's knowledge of a pair of endpoints, and runs for forecasts."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime

from identity.database_rows import execute
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent
from transferapi.tasks.records import SliceMeasurement

from .leases import NOT_DURABLE, hold

#: Runs of a pair of endpoints; older ones are deleted.
RUNS_KEPT = 500


def add_event(task_id: uuid.UUID, epoch: int, new: NewEvent, now: datetime | None = None) -> None:
    """Append an event, as far as there is room (`events.append_bounded`). Raises LeaseLostError."""
    with hold(task_id, epoch, now) as now:
        events.append_bounded(task_id, [new], now)


def learn(
    task_id: uuid.UUID,
    knowledge: Mapping[str, object] | None,
    run: SliceMeasurement | None,
    now: datetime | None = None,
) -> None:
    """Replace the knowledge of the task's pair of endpoints, and add the run. None: leave it unchanged; no run.

    A shared endpoint counts as its host. The call needs no lease because it does not change the task. Of two tasks on
    one pair, the later call wins: each began with the knowledge of an earlier one. It does not wait for the disk.
    """
    if knowledge is None and run is None:
        return
    columns = asdict(run) if run else {}
    execute(NOT_DURABLE + (_LEARN_AND_RUN if run else _LEARN), {
        **columns,
        "task": task_id,
        "now": now,
        "knowledge": None if knowledge is None else json.dumps(dict(knowledge)),
        "older": RUNS_KEPT - 1,
    })  # fmt: skip


_LEARN = """
    WITH pair AS (
        SELECT source_host_id AS source, destination_host_id AS destination,
            coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
        FROM tasks_task WHERE id = %(task)s AND destination_host_id IS NOT NULL
    ), known AS (
        INSERT INTO tasks_pathmemory (source_id, destination_id, knowledge, updated_at)
        SELECT source, destination, %(knowledge)s::jsonb, now FROM pair WHERE %(knowledge)s IS NOT NULL
        ON CONFLICT (source_id, destination_id) DO UPDATE
            SET knowledge = excluded.knowledge, updated_at = excluded.updated_at
        RETURNING id
    )
    SELECT FROM known"""

_RUN_COLUMNS = [field.name for field in fields(SliceMeasurement)]
#: All but the latest runs of the pair are deleted; only the index is read to find the first of them. The statement does
#: not see the run that it adds. The row of the pair is written first, so that two tasks take their locks in one order.
_LEARN_AND_RUN = f"""{_LEARN.removesuffix("SELECT FROM known").rstrip()}, run AS (
        INSERT INTO tasks_run (task_id, source_id, destination_id, ended_at, {", ".join(_RUN_COLUMNS)})
        SELECT %(task)s, source, destination, now, {", ".join(f"%({name})s" for name in _RUN_COLUMNS)} FROM pair
    )
    DELETE FROM tasks_run old USING pair
    WHERE (SELECT count(*) FROM known) >= 0 AND old.source_id = pair.source AND old.destination_id = pair.destination
        AND old.ended_at <= (
            SELECT ended_at FROM tasks_run WHERE source_id = pair.source AND destination_id = pair.destination
            ORDER BY ended_at DESC OFFSET %(older)s LIMIT 1)"""  # noqa: S608 (constants)
