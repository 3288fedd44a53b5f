"""Endpoints that fail now, for the log, the metrics and the lists of operators."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0027_bytes_kept"), ("endpoints", "0019_uploads"))

    operations = (
        migrations.CreateModel(
            name="EndpointFailure",
            fields=[
                (
                    "endpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="endpoints.endpoint",
                    ),
                ),
                ("code", models.CharField(max_length=64)),
                ("since", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
    )
