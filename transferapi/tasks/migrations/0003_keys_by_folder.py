"""Keys of files stand together by folder (scan_results.file_key), and the item of a file is no index any more."""

import django.db.models.deletion
from django.db import migrations, models

from transferapi.tasks.worker.scan_results import file_key

BATCH = 5000


def rekey(apps, schema_editor):
    """Unfinished tasks may be scanned again: their files must be found under the new keys."""
    with schema_editor.connection.cursor() as cursor:
        last = 0
        while True:
            cursor.execute(
                "SELECT f.id, coalesce(f.destination_path, f.source_path) FROM tasks_file f JOIN tasks_task t"
                " ON t.id = f.task_id WHERE t.phase <> 'done' AND f.id > %s ORDER BY f.id LIMIT %s",
                [last, BATCH],
            )
            rows = cursor.fetchall()
            if not rows:
                return
            last = rows[-1][0]
            keys = [(id_, file_key(bytes(path).decode("utf-8", "surrogateescape"))) for id_, path in rows]
            cursor.executemany("UPDATE tasks_file SET key = %s WHERE id = %s", [(key, id_) for id_, key in keys])


class Migration(migrations.Migration):
    dependencies = [("tasks", "0002_options")]

    operations = [
        migrations.AlterField(
            model_name="file",
            name="item",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tasks.item"
            ),
        ),
        migrations.RunPython(rekey, migrations.RunPython.noop),
    ]
