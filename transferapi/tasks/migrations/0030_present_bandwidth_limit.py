"""The rate to which a running transfer is limited now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0029_deletion_of_tasks"),)

    operations = (
        migrations.AddField(model_name="task", name="present_bandwidth_limit", field=models.BigIntegerField(null=True)),
    )
