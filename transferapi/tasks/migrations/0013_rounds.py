from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("tasks", "0012_task_status"),
    ]

    operations = [
        migrations.CreateModel(
            name="Round",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("next_at", models.DateTimeField()),
            ],
        ),
    ]
