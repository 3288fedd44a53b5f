from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0020_client_options"),
    ]

    operations = [
        migrations.AddField(model_name="signin", name="requested", field=models.TextField(null=True)),
    ]
