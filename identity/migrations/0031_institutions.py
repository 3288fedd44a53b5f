from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0030_linked_identities"),
    ]

    operations = [
        migrations.CreateModel(
            name="Institution",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_id", models.CharField(max_length=1024)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("source", models.CharField(max_length=1024)),
                ("name", models.CharField(max_length=256)),
                ("search_text", models.TextField()),
                ("sign_in_url", models.CharField(max_length=1024)),
                ("certificates", models.JSONField()),
                ("scopes", models.JSONField()),
                ("valid_until", models.DateTimeField(null=True)),
                ("read_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["name"], name="institution_by_name")],
            },
        ),
    ]
