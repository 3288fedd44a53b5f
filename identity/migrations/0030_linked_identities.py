import django.db.models.deletion
import django.db.models.functions.text
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0025_registrations"),
    ]

    operations = [
        migrations.CreateModel(
            name="LinkedIdentity",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("provider", models.CharField(max_length=1100)),
                ("subject", models.CharField(max_length=1024)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                ("username", models.CharField(max_length=512)),
                ("email", models.CharField(blank=True, default="", max_length=254)),
                ("email_verified", models.BooleanField(default=False)),
                ("name", models.CharField(blank=True, default="", max_length=256)),
                ("organization", models.CharField(blank=True, default="", max_length=256)),
                ("linked_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("primary", models.BooleanField(default=False)),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="linked_identities", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "indexes": [models.Index(django.db.models.functions.text.Lower("username"), name="linked_identity_by_name")],
                "constraints": [models.UniqueConstraint(condition=models.Q(("primary", True)), fields=("user",), name="linked_identity_one_primary")],
            },
        ),
    ]
