import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0010_password_credentials"),
        ("oauth2_provider", "0022_refreshtoken_token_family_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClientOptions",
            fields=[
                (
                    "application",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="options",
                        serialize=False,
                        to="oauth2_provider.application",
                    ),
                ),
                ("rotates_refresh_tokens", models.BooleanField(db_default=False, default=False)),
            ],
        ),
    ]
