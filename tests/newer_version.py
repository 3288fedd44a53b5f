"""A version of the service that is newer than this one: a copy of the tree with two more migrations.

The first is an expansion (a column, a table, a value of an enum that this version does not know), the second a
contraction. The models of the copy have the new column and table.
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
    operations = (migrations.RunSQL("COMMENT ON TABLE tasks_tomorrow IS 'contracted'"),)
"""
_MODEL = '''

class Tomorrow(models.Model):
    """A table of the newer version."""

    id = models.BigAutoField(primary_key=True)
'''
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
    assert text.count(_FIELD) == 1
    head, _, tail = text.partition(_FIELD)
    docstring, _, fields = tail.partition('"""\n\n')
    column = '    tomorrow = models.CharField(max_length=8, db_default="later", default="sooner")\n'
    model.write_text(f'{head}{_FIELD}{docstring}"""\n\n{column}{fields}{_MODEL}')
    return folder
