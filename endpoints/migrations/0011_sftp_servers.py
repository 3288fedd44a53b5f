from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("endpoints", "0010_ssh_servers"),
    ]

    operations = [
        migrations.AlterField(
            model_name="server",
            name="scheme",
            field=models.CharField(
                choices=[("ftp", "ftp"), ("gsiftp", "gsiftp"), ("sshftp", "sshftp"), ("ssh", "ssh"), ("sftp", "sftp")],
                max_length=8,
            ),
        ),
    ]
