"""The way that the data of a task go, where an agent has a part in it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("tasks", "0015_mail_preference"),)

    operations = (
        migrations.AddField(model_name="task", name="data_way", field=models.CharField(max_length=16, null=True)),
    )
