import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("endpoints", "0008_data_hosts"),
    ]

    operations = [
        # With a default of the database: programs that do not know the column go on.
        migrations.AddField(
            model_name="endpoint",
            name="personal",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="AgentAuthority",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("certificate", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("key_id", models.CharField(max_length=16)),
                ("sealed", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "endpoint",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="agent",
                        serialize=False,
                        to="endpoints.endpoint",
                    ),
                ),
                ("setup_key_hash", models.BinaryField(max_length=32, null=True)),
                ("setup_expires_at", models.DateTimeField(null=True)),
                ("setup_used_at", models.DateTimeField(null=True)),
                ("public_key", models.TextField(blank=True)),
                ("certificate_serial", models.CharField(blank=True, max_length=40)),
                ("certificate_expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("version", models.CharField(blank=True, max_length=64)),
                ("platform", models.CharField(blank=True, max_length=128)),
                ("paused", models.BooleanField(default=False)),
                ("connected_at", models.DateTimeField(null=True)),
                ("last_seen_at", models.DateTimeField(null=True)),
                ("relay", models.CharField(blank=True, max_length=255)),
                ("epoch", models.BigIntegerField(default=0)),
                ("clone_reported_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("relay", ""), _negated=True), fields=["relay"], name="agent_by_relay"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("setup_key_hash__isnull", False)),
                        fields=("setup_key_hash",),
                        name="agent_setup_key_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("public_key", ""), _negated=True),
                        fields=("public_key",),
                        name="agent_public_key_once",
                    ),
                ],
            },
        ),
    ]
