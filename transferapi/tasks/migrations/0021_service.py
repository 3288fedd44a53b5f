"""Tables of the service as a whole: effects of migrations, running processes, the maintenance mode."""

from django.db import migrations, models


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("tasks", "0020_tallies"),)

    operations = (
        migrations.CreateModel(
            name="SchemaChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("app", models.CharField(max_length=255)),
                ("name", models.CharField(max_length=255)),
                ("effect", models.CharField(max_length=16)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("app", "name"), name="schema_change_once")],
            },
        ),
        migrations.CreateModel(
            name="ServiceProcess",
            fields=[
                ("name", models.CharField(max_length=128, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=16)),
                ("version", models.CharField(max_length=64)),
                ("knows", models.JSONField(default=list)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Maintenance",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("message", models.CharField(max_length=500)),
                ("until", models.DateTimeField(null=True)),
                ("hold", models.BooleanField(default=False)),
                ("since", models.DateTimeField()),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="maintenance_is_one_row")],
            },
        ),
    )
