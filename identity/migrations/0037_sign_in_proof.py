from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('identity', '0036_audit'),
    ]

    operations = [
        migrations.AddField(
            model_name='signin',
            name='identity',
            field=models.CharField(db_default='', default='', max_length=512),
        ),
        migrations.AddField(
            model_name='signin',
            name='way',
            field=models.CharField(db_default='', default='', max_length=16),
        ),
    ]
