from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('endpoints', '0012_relays'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='authentication_domains',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='authentication_timeout_mins',
            field=models.PositiveIntegerField(null=True),
        ),
    ]
