"""An index for the deletion of tasks."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    atomic = False
    dependencies = (("timers", "0002_errors_and_tasks"),)

    operations = (
        AddIndexConcurrently("timer", models.Index(fields=["last_task"], condition=models.Q(last_task__isnull=False), name="timer_of_last_task")),
    )
