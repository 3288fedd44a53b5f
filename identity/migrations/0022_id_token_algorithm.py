from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0021_requested_scopes"),
    ]

    operations = [
        migrations.AddField(
            model_name="clientoptions",
            name="id_token_algorithm",
            field=models.CharField(blank=True, db_default="", default="", max_length=8),
        ),
    ]
