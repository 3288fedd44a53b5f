"""The migrations that are to be run: what each is, what it waits for, and what it locks."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from transferapi.schema_version import CONTRACT, EXPAND, Key, effect_of

from .operations import READS, WRITES, Judged, judge

#: Rows that PostgreSQL reads, and writes, in a second, on a slow disk: the times that are shown are rough.
_ROWS_A_SECOND = {READS: 500_000, WRITES: 50_000}


@dataclass(frozen=True, slots=True)
class Step:
    """A migration. effect: EXPAND, CONTRACT or None. after: one of another effect that must be run before it."""

    key: Key
    effect: str | None
    after: Key | None
    judged: tuple[Judged, ...]

    @property
    def name(self) -> str:
        return ".".join(self.key)


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """All that is to be run, in order. fresh: the database is empty, and nobody uses it."""

    fresh: bool
    steps: list[Step] = field(default_factory=list)

    @property
    def expansions(self) -> list[Step]:
        """The expansions that wait for no contraction: they may run while the previous release runs."""
        return [step for step in self.of(EXPAND) if step.after is None]

    @property
    def contractions(self) -> list[Step]:
        """The contractions that wait for no expansion: they may run when no process of the previous release is left."""
        return [step for step in self.of(CONTRACT) if step.after is None]

    @property
    def unjudged(self) -> list[Step]:
        """The migrations of neither kind: every process must be stopped for them."""
        return self.of(None)

    def of(self, effect: str | None) -> list[Step]:
        """All migrations with this effect, also those that wait for others."""
        return [step for step in self.steps if step.effect == effect]


def make() -> UpgradePlan:
    """Read the plan from the code and the database. Raises django.db.Error."""
    executor = MigrationExecutor(connection)
    graph = executor.loader.graph
    applied = executor.loader.applied_migrations
    plan, found = UpgradePlan(fresh=not applied), dict[Key, Step]()
    state = executor.loader.project_state([key for key in applied if key in graph.nodes])
    for migration, _ in executor.migration_plan(graph.leaf_nodes()):
        key, effect = (migration.app_label, migration.name), effect_of(migration)
        before = [found[parent.key] for parent in graph.node_map[key].parents if parent.key in found]
        after = [one.key if one.effect != effect else one.after for one in before]
        judged = () if plan.fresh else tuple(judge(migration, state))
        found[key] = Step(key, effect, next((one for one in after if one), None), judged)
        plan.steps.append(found[key])
    return plan


def locks(step: Step) -> list[str]:
    """A line for each existing table that this migration locks: what is done, the rows, and roughly how long."""
    found = []
    for one in step.judged:
        if one.table:
            rows = _rows(one.table)
            speed = _ROWS_A_SECOND.get(one.work)
            seconds = "less than a second" if speed is None or rows < speed else f"roughly {rows // speed} s"
            stops = "stops reading and writing" if one.blocks else "stops nothing"
            found.append(f"{one.table}: {one.work} ({rows} rows), {stops}, {seconds}")
    return list(dict.fromkeys(found))


def _rows(table: str) -> int:
    """The rows of a table, as PostgreSQL last counted them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = to_regclass(%s)", [table])
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def longest_transaction() -> float:
    """Seconds for which the oldest transaction of another session has been open; 0 where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return float(cursor.fetchone()[0])
