"""Indexes for the deletion of tasks, and of endpoints that tasks refer to."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    atomic = False
    dependencies = (("tasks", "0028_endpoint_failure"),)

    operations = (
        AddIndexConcurrently("task", models.Index(fields=["completion_time"], condition=models.Q(phase="done", history_deleted=True), name="task_without_history")),
        AddIndexConcurrently("task", models.Index(fields=["source_host"], name="task_by_any_source_host")),
        AddIndexConcurrently("task", models.Index(fields=["destination_host"], condition=models.Q(destination_host__isnull=False), name="task_by_any_destination_host")),
        AddIndexConcurrently("task", models.Index(fields=["waits_at"], condition=models.Q(waits_at__isnull=False), name="task_waiting_at")),
        AddIndexConcurrently("mail", models.Index(fields=["task"], condition=models.Q(task__isnull=False), name="mail_of_task")),
        AddIndexConcurrently("delivery", models.Index(fields=["task"], condition=models.Q(task__isnull=False), name="delivery_of_task")),
        AddIndexConcurrently("pathmemory", models.Index(fields=["destination"], name="path_memory_to")),
        AddIndexConcurrently("run", models.Index(fields=["destination"], name="run_to")),
    )
