"""How often in a row a worker was lost with a task; workers of before count none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0023_service_gauges"),)

    operations = (
        migrations.AddField("lease", "losses", models.IntegerField(default=0, db_default=0)),
        migrations.AddField("lease", "progress", models.BigIntegerField(default=0, db_default=0)),
    )
