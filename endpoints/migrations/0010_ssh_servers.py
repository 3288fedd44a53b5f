import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("endpoints", "0009_agents"),
    ]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="data_ports",
            field=models.CharField(blank=True, db_default="", default="", max_length=11),
        ),
        migrations.AddField(
            model_name="endpoint",
            name="jump_host",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="endpoints.endpoint",
            ),
        ),
        migrations.AddField(
            model_name="server",
            name="shown_host_key",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AlterField(
            model_name="server",
            name="scheme",
            field=models.CharField(
                choices=[("ftp", "ftp"), ("gsiftp", "gsiftp"), ("sshftp", "sshftp"), ("ssh", "ssh")], max_length=8
            ),
        ),
    ]
