"""Indexes for the deletion of rows of endpoints."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    atomic = False
    dependencies = (("endpoints", "0020_any_scheme"),)

    operations = (
        AddIndexConcurrently("endpoint", models.Index(fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="endpoint_deleted")),
        AddIndexConcurrently("endpoint", models.Index(fields=["jump_host"], condition=models.Q(jump_host__isnull=False), name="endpoint_of_jump_host")),
        AddIndexConcurrently("uploadrecord", models.Index(fields=["endpoint"], name="upload_of_endpoint")),
    )
