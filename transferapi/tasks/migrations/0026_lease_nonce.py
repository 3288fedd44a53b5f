"""A number that the holder of a lease has drawn; workers of before draw none, and compare the epoch alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0025_own_names"),)

    operations = (migrations.AddField("lease", "nonce", models.BigIntegerField(null=True)),)
