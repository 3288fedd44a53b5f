from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("endpoints", "0007_demands"),
    ]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="data_hosts",
            # With a default of the database: programs that do not know the column go on.
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
    ]
