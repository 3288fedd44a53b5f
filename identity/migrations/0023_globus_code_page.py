from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0022_id_token_algorithm"),
    ]

    operations = [
        migrations.AddField(
            model_name="clientoptions",
            name="globus_code_page",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
