"""The origins of applications' redirect URIs, with an index: pages of these origins may read answers (CORS)."""

from urllib.parse import urlsplit

from django.db import migrations

_STANDARD = {"http": 80, "https": 443}


def _origin(uri):
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, _STANDARD.get(parts.scheme)) else f":{parts.port}")


def fill(apps, schema_editor):
    """Not for programs that registered themselves: they have no pages."""
    applications = apps.get_model("oauth2_provider", "Application").objects
    for found in applications.exclude(redirect_uris="").exclude(registration_source="dcr").iterator():
        origins = " ".join(sorted({_origin(uri) for uri in found.redirect_uris.split()}))
        applications.filter(pk=found.pk).update(allowed_origins=origins)


class Migration(migrations.Migration):

    dependencies = [
        ("identity", "0023_globus_code_page"),
        ("oauth2_provider", "0022_refreshtoken_token_family_index"),
    ]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        # An update leaves events of triggers behind, and an index is not made before they have run.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RunSQL(
            "CREATE INDEX application_origins ON oauth2_provider_application "
            "USING gin (string_to_array(allowed_origins, ' '))",
            "DROP INDEX application_origins",
        ),
    ]
