"""Each migration says whether the previous release can run on its result, and its operations agree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ModelState, ProjectState

from deploy.upgrade.plan import flaws
from transferapi.schema_version import CONTRACT, EXPAND, effect_of

#: The last migration of each app that has no effect: they are older than the first release.
BEFORE = {"identity": 41, "endpoints": 15, "tasks": 20, "timers": 2}


@cache
def loader() -> MigrationLoader:
    return MigrationLoader(None)


def ours() -> list[tuple[str, str]]:
    return sorted(key for key in loader().disk_migrations if key[0] in BEFORE)


def is_judged(key: tuple[str, str]) -> bool:
    return int(key[1][:4]) > BEFORE[key[0]]


@pytest.mark.parametrize("key", [key for key in ours() if is_judged(key)], ids=".".join)
def test_a_migration_has_the_effect_that_it_says(key: tuple[str, str]) -> None:
    migration = loader().disk_migrations[key]
    state = loader().project_state(key, at_end=False)
    assert flaws(migration, state) == [], "see docs/operate/upgrade.md, For developers"


def test_migrations_of_before_say_nothing() -> None:
    """Nobody has judged them: every process stops for one that is missing."""
    assert [key for key in ours() if not is_judged(key) and effect_of(loader().disk_migrations[key])] == []


ONLY_ONE = models.UniqueConstraint(fields=["name"], name="thing_once")
AT_LEAST_ZERO = models.CheckConstraint(condition=models.Q(counted__gte=0), name="thing_counted")


def state() -> ProjectState:
    fields: list[tuple[str, models.Field[Any, Any]]] = [
        ("id", models.BigAutoField(primary_key=True)),
        ("name", models.CharField(max_length=10)),
        ("optional", models.IntegerField(null=True)),
        ("counted", models.IntegerField(db_default=0)),
    ]
    found = ProjectState()
    rules = [ONLY_ONE, AT_LEAST_ZERO]
    found.add_model(ModelState("tasks", "Thing", fields, {"constraints": rules, "indexes": []}))
    return found


def judged(effect: str | None, operations: Sequence[Operation], **more: object) -> list[str]:
    kind = type("Migration", (Migration,), {"operations": operations, "effect": effect, **more})
    return flaws(kind("0099_x", "tasks"), state())


INDEX = models.Index(fields=["name"], name="thing_name")
CHECK = models.CheckConstraint(condition=models.Q(optional__gte=0), name="thing_check")
NEW_TABLE = migrations.CreateModel("Other", [("id", models.BigAutoField(primary_key=True))])


@pytest.mark.parametrize(
    "operation",
    [
        NEW_TABLE,
        migrations.AddField("thing", "new", models.IntegerField(null=True)),
        migrations.AddField("thing", "new", models.CharField(max_length=3, db_default="")),
        migrations.AlterField("thing", "name", models.CharField(max_length=20)),
        migrations.AlterField("thing", "name", models.CharField(max_length=10, null=True)),
        migrations.AlterField("thing", "name", models.CharField(max_length=10, choices=[("a", "b")])),
        migrations.AlterField("thing", "name", models.CharField(max_length=10, db_default="")),
        migrations.AlterModelOptions("thing", {"ordering": ["name"]}),
        AddIndexConcurrently("thing", INDEX),
        migrations.RemoveConstraint("thing", AT_LEAST_ZERO.name),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("thing", "name")],
            database_operations=[migrations.AlterField("thing", "name", models.CharField(max_length=10, null=True))],
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_expansions(operation: Operation) -> None:
    assert judged(EXPAND, [operation]) == []
    assert judged(CONTRACT, [operation]) != []


@pytest.mark.parametrize(
    "operation",
    [
        migrations.RemoveField("thing", "optional"),
        migrations.RemoveField("thing", "counted"),
        migrations.DeleteModel("Thing"),
        migrations.AlterField("thing", "optional", models.IntegerField(db_default=0)),
        migrations.AlterField("thing", "counted", models.IntegerField()),
        migrations.AlterField("thing", "name", models.CharField(max_length=5)),
        migrations.AlterField("thing", "name", models.IntegerField()),
        migrations.AlterField("thing", "name", models.CharField(max_length=10, unique=True)),
        migrations.AddConstraint("thing", CHECK),
        migrations.RemoveConstraint("thing", ONLY_ONE.name),
        migrations.RunSQL("SELECT 1"),
        migrations.RunPython(migrations.RunPython.noop),
    ],
    ids=lambda one: type(one).__name__,
)
def test_contractions(operation: Operation) -> None:
    assert judged(CONTRACT, [operation]) == []
    assert judged(EXPAND, [operation]) != []


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (migrations.AddField("thing", "new", models.IntegerField(default=0)), "old code cannot add rows"),
        (migrations.RemoveField("thing", "name"), "new code cannot add rows"),
        (migrations.RenameField("thing", "name", "title"), "fits one version only"),
        (migrations.RenameModel("Thing", "Stuff"), "fits one version only"),
        (migrations.AddIndex("thing", INDEX), "AddIndexConcurrently"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_on_some_operations_neither_version_runs(operation: Operation, why: str) -> None:
    for effect in (EXPAND, CONTRACT):
        [said] = judged(effect, [operation])
        assert why in said


def test_all_is_an_expansion_in_a_table_of_the_same_migration() -> None:
    others = [
        NEW_TABLE,
        migrations.AddField("other", "new", models.IntegerField(default=0)),
        migrations.AddIndex("other", models.Index(fields=["new"], name="other_new")),
        migrations.AddConstraint("other", models.UniqueConstraint(fields=["new"], name="other_once")),
    ]
    assert judged(EXPAND, others) == []


def test_statements_say_why_old_code_can_run() -> None:
    assert judged(EXPAND, [migrations.RunSQL("SELECT 1")], why_expand="It fills a column that old code ignores") == []


def test_a_migration_without_an_effect_is_refused() -> None:
    assert judged(None, [NEW_TABLE]) == ['it needs `effect = "expand"` or `effect = "contract"`']
