"""The sentences of events, for readers in other languages than English."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0029_deletion_of_tasks"),)

    operations = (migrations.AddField("event", "sentence", models.JSONField(null=True)),)
