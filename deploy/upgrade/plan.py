"""The migrations that are to be run: what each is, what it waits for, and what it locks.

Each operation is judged: whether the previous release can run on the result, and what it locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.postgres import operations as postgres
from django.db import connection, models
from django.db.migrations import operations as ops
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.fields import NOT_PROVIDED

from transferapi.schema_version import CONTRACT, EXPAND, Key, effect_of

#: The work of an operation on the rows of an existing table: none; reading all of them; writing all of them.
CATALOG, READS, WRITES = "changes the catalog", "reads all rows", "writes all rows"


@dataclass(frozen=True, slots=True)
class Judged:
    """effect: EXPAND, CONTRACT, or None where neither version would run. why: for whoever wrote the migration.

    table: the existing table that it locks, "" for none; work: CATALOG, READS or WRITES; blocks: also reading waits.
    """

    effect: str | None
    why: str
    table: str = ""
    work: str = CATALOG
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an operation: its app, the state before it, and the tables that its migration has made."""

    app: str
    before: ProjectState
    new: frozenset[tuple[str, str]]

    def is_new(self, model: str) -> bool:
        return (self.app, model.lower()) in self.new

    def table(self, model: str) -> str:
        """The table of a model; "" for one that this migration has made, which nobody uses."""
        key = (self.app, model.lower())
        found = self.before.models.get(key)
        if found is None or key in self.new:
            return ""
        return str(found.options.get("db_table") or f"{self.app}_{model.lower()}")

    def field(self, model: str, name: str) -> models.Field[Any, Any]:
        found: models.Field[Any, Any] = self.before.models[self.app, model.lower()].fields[name]
        return found

    def constraint(self, model: str, name: str) -> models.BaseConstraint:
        found: models.BaseConstraint = self.before.models[self.app, model.lower()].get_constraint_by_name(name)
        return found


def judge(migration: Migration, state: ProjectState) -> Iterator[Judged]:
    """Judge each operation. state: that before the migration; it is changed to that after it."""
    new: set[tuple[str, str]] = set()
    for operation in migration.operations:
        if isinstance(operation, ops.SeparateDatabaseAndState):
            scratch = state.clone()
            for inner in operation.database_operations:
                yield _judge(inner, migration, scratch, new)
            operation.state_forwards(migration.app_label, state)
        else:
            yield _judge(operation, migration, state, new)


def flaws(migration: Migration, state: ProjectState) -> list[str]:
    """Sentences on why the migration does not have the effect that it says. state: see `judge`."""
    effect = effect_of(migration)
    judged = list(judge(migration, state))
    if effect not in (EXPAND, CONTRACT):
        return [f'it needs `effect = "{EXPAND}"` or `effect = "{CONTRACT}"`']
    found = [one.why for one in judged if one.effect is None or (effect == EXPAND and one.effect != EXPAND)]
    if effect == CONTRACT:
        found += [f"{one.why}: it belongs into an expansion" for one in judged if one.effect == EXPAND]
    return found


def _judge(operation: Operation, migration: Migration, state: ProjectState, new: set[tuple[str, str]]) -> Judged:
    """Judge one operation, and change the state and the new tables by it."""
    app, before = migration.app_label, state.clone()
    operation.state_forwards(app, state)
    if isinstance(operation, ops.CreateModel):
        new.add((app, operation.name_lower))
    for kinds, rule in _RULES:
        if isinstance(operation, kinds):
            return rule(operation, _Place(app, before, frozenset(new)))
    name = type(operation).__name__
    if not isinstance(operation, ops.RunSQL | ops.RunPython):
        return Judged(CONTRACT, f"{name} counts as a contraction")
    if words := str(getattr(migration, "why_expand", "")):
        return Judged(EXPAND, words)
    return Judged(CONTRACT, f"{name} without `why_expand`, which says why old code can run")


def _state_only(operation: Any, place: _Place) -> Judged:
    return Judged(EXPAND, f"{type(operation).__name__} changes no table")


def _create_model(operation: Any, place: _Place) -> Judged:
    return Judged(EXPAND, f"{operation.name} is a new table")


def _add_field(operation: Any, place: _Place) -> Judged:
    field, model = operation.field, operation.model_name
    what, table = f"{model}.{operation.name}", place.table(model)
    if place.is_new(model):
        return Judged(EXPAND, f"{what} is in a new table")
    reads = field.is_relation or field.unique or field.db_index
    work = READS if reads and not field.many_to_many else CATALOG
    if not (field.many_to_many or _may_be_left_out(field)):
        return Judged(None, f"{what} is new and neither null=True nor with db_default: old code cannot add rows", table)
    return Judged(EXPAND, f"{what} may be left out", table, work)


def _may_be_left_out(field: models.Field[Any, Any]) -> bool:
    return bool(field.null) or _has_default(field)


def _has_default(field: models.Field[Any, Any]) -> bool:
    """Whether the database has a default for it."""
    return getattr(field, "db_default", NOT_PROVIDED) is not NOT_PROVIDED


def _remove_field(operation: Any, place: _Place) -> Judged:
    model, name = operation.model_name, operation.name
    field, what = place.field(model, name), f"{model}.{name}"
    if not (field.many_to_many or _may_be_left_out(field)):
        why = f"{what} is removed, and is neither null=True nor with db_default: new code cannot add rows before"
        return Judged(None, f"{why}; make it so in an expansion", place.table(model))
    return Judged(CONTRACT, f"{what} is removed", place.table(model))


def _delete_model(operation: Any, place: _Place) -> Judged:
    return Judged(CONTRACT, f"{operation.name} is removed", place.table(operation.name))


def _rename(operation: Any, place: _Place) -> Judged:
    why = "a new name fits one version only: add, copy, and remove in a later release"
    return Judged(None, f"{type(operation).__name__}: {why}")


def _alter_field(operation: Any, place: _Place) -> Judged:
    model, name, new = operation.model_name, operation.name, operation.field
    old, what, table = place.field(model, name), f"{model}.{name}", place.table(model)
    if place.is_new(model):
        return Judged(EXPAND, f"{what} is in a new table")
    changed = _changed(old, new)
    if not changed:
        return Judged(EXPAND, f"{what} is the same for the database")
    if changed <= {"null", "db_default", "max_length"} and _is_wider(old, new):
        return Judged(EXPAND, f"{what} allows more", table)
    words = ", ".join(sorted(changed))
    return Judged(CONTRACT, f"{what} changes in {words}", table, READS if changed == {"null"} else WRITES)


def _is_wider(old: models.Field[Any, Any], new: models.Field[Any, Any]) -> bool:
    if (old.null and not new.null) or (_has_default(old) and not _has_default(new)):
        return False
    before, after = old.max_length, new.max_length
    return before == after or (before is not None and after is not None and after > before)


#: Arguments of fields that the database does not see.
_UNSEEN = frozenset(
    {"blank", "choices", "default", "editable", "error_messages", "help_text", "limit_choices_to", "on_delete"}
    | {"related_name", "related_query_name", "validators", "verbose_name", "auto_now", "auto_now_add", "encoder"}
)


def _changed(old: models.Field[Any, Any], new: models.Field[Any, Any]) -> set[str]:
    """The arguments of a field that differ for the database; "type" for its class."""
    _, old_path, _, before = old.deconstruct()
    _, new_path, _, after = new.deconstruct()
    found = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} - _UNSEEN
    return found | ({"type"} if old_path != new_path else set())


def _add_index(operation: Any, place: _Place) -> Judged:
    table = place.table(operation.model_name)
    if not table:
        return Judged(EXPAND, "an index on a new table")
    name = operation.index.name
    why = f"the index {name} stops writing while it is built: use AddIndexConcurrently in a migration with atomic=False"
    return Judged(None, why, table, READS)


def _add_index_concurrently(operation: Any, place: _Place) -> Judged:
    name = operation.index.name
    return Judged(EXPAND, f"the index {name}", place.table(operation.model_name), READS, blocks=False)


def _add_constraint(operation: Any, place: _Place) -> Judged:
    table = place.table(operation.model_name)
    if not table:
        return Judged(EXPAND, "a constraint on a new table")
    return Judged(CONTRACT, f"rows of old code may violate {operation.constraint.name}", table, READS)


def _remove_constraint(operation: Any, place: _Place) -> Judged:
    """A unique constraint is one that old code may rely on, to find out what is there already."""
    what, found = operation.name, place.constraint(operation.model_name, operation.name)
    if isinstance(found, models.CheckConstraint):
        return Judged(EXPAND, f"without the check {what} more is allowed", place.table(operation.model_name))
    return Judged(CONTRACT, f"old code may rely on {what}", place.table(operation.model_name))


_RULES: tuple[tuple[tuple[type, ...], Callable[[Any, _Place], Judged]], ...] = (
    ((ops.CreateModel,), _create_model),
    ((ops.AddField,), _add_field),
    ((ops.RemoveField,), _remove_field),
    ((ops.DeleteModel,), _delete_model),
    ((ops.RenameField, ops.RenameModel, ops.AlterModelTable), _rename),
    ((ops.AlterField,), _alter_field),
    ((postgres.AddIndexConcurrently,), _add_index_concurrently),
    ((ops.AddIndex,), _add_index),
    ((ops.AddConstraint,), _add_constraint),
    ((ops.RemoveConstraint,), _remove_constraint),
    ((ops.AlterModelOptions, ops.AlterModelManagers, ops.RenameIndex), _state_only),
)


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
