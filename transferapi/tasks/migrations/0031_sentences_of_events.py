"""The sentences of events, for readers in other languages than English."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0030_present_bandwidth_limit"),)

    operations = (migrations.AddField("event", "sentence", models.JSONField(null=True)),)
