from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0009_account"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="credential", name="credential_kind_is_known"),
        migrations.AddConstraint(
            model_name="credential",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["x509", "ssh", "password"])), name="credential_kind_is_known"
            ),
        ),
    ]
