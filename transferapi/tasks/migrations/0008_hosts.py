import django.db.models.deletion
from django.db import migrations, models

#: Of the tasks that there are, the hosts are the endpoints themselves, unless these are shared ones.
FILL = """
    UPDATE tasks_task t SET
        source_host_id = (SELECT coalesce(e.host_id, e.id) FROM endpoints_endpoint e WHERE e.id = t.source_id),
        destination_host_id = (SELECT coalesce(e.host_id, e.id) FROM endpoints_endpoint e WHERE e.id = t.destination_id)
"""
UNFINISHED = models.Q(('phase', 'done'), _negated=True)


class Migration(migrations.Migration):

    dependencies = [
        ('endpoints', '0004_sharing'),
        ('tasks', '0007_pauses'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='source_host',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='endpoints.endpoint'),
        ),
        migrations.AddField(
            model_name='task',
            name='destination_host',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='endpoints.endpoint'),
        ),
        # The checks of the new keys come at the end of a transaction, and a table with such waiting is not altered.
        migrations.RunSQL('SET CONSTRAINTS ALL IMMEDIATE', migrations.RunSQL.noop),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='task',
            name='source_host',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='endpoints.endpoint'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=UNFINISHED, fields=['source_host', 'next_run_at'], name='task_by_source_host'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=UNFINISHED, fields=['destination_host', 'next_run_at'], name='task_by_destination_host'),
        ),
    ]
