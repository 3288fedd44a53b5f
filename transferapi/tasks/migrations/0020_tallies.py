from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0019_worker_processes'),
    ]

    operations = [
        migrations.AddField(
            model_name='workerprocess',
            name='gauges',
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('key', models.CharField(max_length=192, primary_key=True, serialize=False)),
                ('value', models.FloatField()),
            ],
        ),
    ]
