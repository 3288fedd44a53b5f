"""Mail addresses that users want, until they are proven. Earlier versions leave the table alone."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("identity", "0041_scim"),)

    operations = (
        migrations.CreateModel(
            name="AddressChange",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("email", models.CharField(max_length=254)),
                ("former", models.CharField(blank=True, db_default="", default="", max_length=254)),
                ("asked_at", models.DateTimeField()),
                ("digest", models.BinaryField(max_length=32, null=True, unique=True)),
                ("expires_at", models.DateTimeField(db_index=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    )
