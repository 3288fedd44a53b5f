from django.db import migrations, models


class Migration(migrations.Migration):

    effect = "expand"

    dependencies = [
        ("endpoints", "0015_step_up"),
    ]

    operations = [
        migrations.AddField(
            model_name="server",
            name="host_key_confirmed",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
