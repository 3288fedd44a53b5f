"""Names of their own for files on their way: the marks of lost leases, and whether the destination has an entry already."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0024_lease_losses"),)

    operations = (
        migrations.AddField("file", "absent", models.BooleanField(default=False, db_default=False)),
        migrations.AddField("task", "lost_marks", models.TextField(default="", db_default="")),
    )
