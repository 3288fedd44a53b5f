"""Numbers of the moment of relays and shells; processes of before report none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0022_trace_context"),)

    operations = (migrations.AddField("serviceprocess", "gauges", models.JSONField(null=True)),)
