from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0036_audit"),
    ]

    operations = [
        migrations.AddField(model_name="signin", name="requested", field=models.TextField(null=True)),
    ]
