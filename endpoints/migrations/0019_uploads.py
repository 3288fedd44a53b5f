import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    effect = "expand"

    dependencies = [
        ('endpoints', '0018_ftp_tls'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='UploadRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('folder', models.BinaryField(max_length=4096)),
                ('key', models.CharField(max_length=64, null=True, unique=True)),
                ('total', models.BigIntegerField()),
                ('received', models.BigIntegerField(default=0)),
                ('is_complete', models.BooleanField(default=False)),
                ('attempt', models.PositiveIntegerField(default=0)),
                ('is_torn', models.BooleanField(default=False)),
                ('writer', models.UUIDField(null=True)),
                ('held_until', models.DateTimeField(null=True)),
                ('target', models.CharField(max_length=64, null=True, unique=True)),
                ('due_at', models.DateTimeField()),
                ('removals', models.PositiveIntegerField(default=0)),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='endpoints.endpoint')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['due_at'], name='upload_by_due')],
            },
        ),
    ]
