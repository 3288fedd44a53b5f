"""A version of the service that is newer than this one: a copy of the tree with two more migrations.

The first is an expansion: a column and a table that this version does not know. The second is a contraction, which
removes a column that this version reads and writes with each task. The models of the copy have the new column and
table, and not the removed column.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from transferapi.config import CHECKOUT

EXPANSION, CONTRACTION = "tasks.9001_tomorrow", "tasks.9002_after_tomorrow"
_LINKED = ("identity", "endpoints", "workers", "webui", "deploy", "pyproject.toml", "manage.py")
_EXPAND = """
from django.db import migrations, models

class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "{last}"),)
    operations = (
        migrations.AddField("task", "tomorrow", models.CharField(max_length=8, db_default="later")),
        migrations.CreateModel("Tomorrow", [("id", models.BigAutoField(primary_key=True))]),
    )
"""
_CONTRACT = """
from django.db import migrations

class Migration(migrations.Migration):
    effect = "contract"
    dependencies = (("tasks", "9001_tomorrow"),)
    operations = (migrations.RemoveField("task", "trace_context"),)
"""
_MODEL = '''

class Tomorrow(models.Model):
    """A table of the newer version."""

    id = models.BigAutoField(primary_key=True)
'''
#: The removed field, and the one place where a worker reads it. An expansion is not needed before: it may be NULL.
_REMOVED = "    trace_context = models.CharField(max_length=55, null=True)\n"
_READ = "lost is not None, task.trace_context)"
#: The first line of the fields of the task.
_FIELD = "class Task(models.Model):\n"


def make(folder: Path) -> Path:
    """Write the tree into this new folder; returns it."""
    folder.mkdir()
    for name in _LINKED:
        (folder / name).symlink_to(CHECKOUT / name)
    shutil.copytree(CHECKOUT / "transferapi", folder / "transferapi", ignore=shutil.ignore_patterns("__pycache__"))
    tasks = folder / "transferapi" / "tasks"
    last = max(path.stem for path in (tasks / "migrations").glob("0*.py"))
    for name, text in ((EXPANSION, _EXPAND), (CONTRACTION, _CONTRACT)):
        (tasks / "migrations" / f"{name.partition('.')[2]}.py").write_text(text.replace("{last}", last))
    model = tasks / "models" / "task.py"
    text = model.read_text()
    assert text.count(_FIELD) == text.count(_REMOVED) == 1
    text = text.replace(_REMOVED, "")
    head, _, tail = text.partition(_FIELD)
    docstring, _, fields = tail.partition('"""\n\n')
    column = '    tomorrow = models.CharField(max_length=8, db_default="later", default="sooner")\n'
    model.write_text(f'{head}{_FIELD}{docstring}"""\n\n{column}{fields}{_MODEL}')
    leases = tasks / "worker" / "leases.py"
    text = leases.read_text()
    assert text.count(_READ) == 1
    leases.write_text(text.replace(_READ, "lost is not None, None)"))
    return folder
