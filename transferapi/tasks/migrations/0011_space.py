"""What users keep is counted, and goes when their tasks end. Old programs work on: what they write is not counted."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


#: Rows of files go by the hundred thousand when a task ends: their space is used again if they are cleared away before
#: a fifth of a large table is dead.
VACUUM = """
    ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000)"""
TABLES = ("tasks_file", "tasks_item", "tasks_event")


class Migration(migrations.Migration):

    dependencies = [
        ('endpoints', '0007_demands'),
        ('identity', '0005_group_terms'),
        ('tasks', '0010_removed_tasks'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Space',
            fields=[
                ('owner', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('tasks', models.BigIntegerField(default=0)),
                ('rows', models.BigIntegerField(default=0)),
                ('octets', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            model_name='task',
            name='event_octets',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='task',
            name='kept_octets',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='task',
            name='kept_rows',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='task',
            name='tidied',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='task',
            name='tidied_up_to',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name='file',
            name='item',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tasks.item'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('phase', 'done'), ('tidied', False)), fields=['completion_time'], name='task_to_be_tidied'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('history_deleted', False), ('phase', 'done')), fields=['owner', 'completion_time'], name='task_with_history_by_owner'),
        ),
        migrations.RunSQL(
            "INSERT INTO tasks_space (owner_id, tasks, rows, octets)"
            " SELECT owner_id, count(*), 0, 0 FROM tasks_task GROUP BY owner_id",
            migrations.RunSQL.noop,
        ),
        *(migrations.RunSQL(VACUUM.format(table=table), migrations.RunSQL.noop) for table in TABLES),
    ]
