"""The span that submitted a task; tasks of before, and of another version, have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0021_service"),)

    operations = (migrations.AddField("task", "trace_context", models.CharField(max_length=55, null=True)),)
