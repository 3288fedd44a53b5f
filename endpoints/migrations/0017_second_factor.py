from django.db import migrations, models


class Migration(migrations.Migration):
    #: A process of the version before does not demand it.
    effect = "expand"
    dependencies = (("endpoints", "0016_host_key_confirmed"),)

    operations = (
        migrations.AddField(
            model_name="endpoint",
            name="mfa_required",
            field=models.BooleanField(db_default=False, default=False),
        ),
    )
