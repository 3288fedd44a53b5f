import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('endpoints', '0011_sftp_servers'),
    ]

    operations = [
        migrations.CreateModel(
            name='RelayProcess',
            fields=[
                ('address', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('heartbeat_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='RelayedOctets',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('day', models.DateField()),
                ('octets', models.BigIntegerField()),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='endpoints.endpoint')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('endpoint', 'day'), name='relayed_octets_once')],
            },
        ),
    ]
