"""The most octets that a task has had at its destination: only what goes beyond them moves its deadline."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0026_lease_nonce"),)

    operations = (migrations.AddField("task", "bytes_kept", models.BigIntegerField(default=0, db_default=0)),)
