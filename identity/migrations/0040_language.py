from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0037_sign_in_proof"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="language",
            field=models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
    ]
