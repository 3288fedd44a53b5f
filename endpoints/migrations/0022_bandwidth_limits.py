"""Bandwidth limits of endpoints."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("endpoints", "0021_deletion_of_rows"),)

    operations = (
        migrations.AddField(
            model_name="endpoint",
            name="bandwidth_limits",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
    )
