from django.db import migrations, models


class Migration(migrations.Migration):

    effect = "expand"

    dependencies = [
        ("endpoints", "0017_second_factor"),
    ]

    operations = [
        migrations.AlterField(
            model_name="server",
            name="scheme",
            field=models.CharField(
                choices=[
                    ("ftp", "ftp"),
                    ("gsiftp", "gsiftp"),
                    ("sshftp", "sshftp"),
                    ("ssh", "ssh"),
                    ("sftp", "sftp"),
                    ("ftpes", "ftpes"),
                ],
                max_length=8,
            ),
        ),
    ]
