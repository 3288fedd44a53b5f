
from django.db import migrations, models


class Migration(migrations.Migration):

    effect = "expand"

    dependencies = [
        ('endpoints', '0019_uploads'),
    ]

    operations = [
        migrations.AlterField(
            model_name='server',
            name='scheme',
            field=models.CharField(max_length=8),
        ),
    ]
