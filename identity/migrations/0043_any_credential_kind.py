"""Credentials of kinds that only newer versions know. Earlier versions see them, and use them for nothing."""

from django.db import migrations


class Migration(migrations.Migration):
    effect = "expand"
    dependencies = (("identity", "0042_address_changes"),)

    operations = (migrations.RemoveConstraint(model_name="credential", name="credential_kind_is_known"),)
