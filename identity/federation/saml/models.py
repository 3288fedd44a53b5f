"""The table of institutions: the identity providers of the metadata that the operator has named."""

from __future__ import annotations

from django.db import models


class Institution(models.Model):
    """A SAML identity provider. `identity.federation.saml.directory` writes it."""

    entity_id = models.CharField(max_length=1024)
    #: SHA-256 of the entity id.
    digest = models.BinaryField(max_length=32, unique=True)
    #: The name of the metadata's source, as the operator has written it.
    source = models.CharField(max_length=1024)
    name = models.CharField(max_length=256)
    #: Names in all languages, key words and domains, in lower case, for the search.
    search_text = models.TextField()
    #: Where requests go (HTTP-Redirect binding).
    sign_in_url = models.CharField(max_length=1024)
    #: Certificates of its signing keys (DER, base64), and the domains of the names that it may give.
    certificates = models.JSONField()
    scopes = models.JSONField()
    #: The end of what the metadata say. None: they do not say.
    valid_until = models.DateTimeField(null=True)
    read_at = models.DateTimeField()

    class Meta:
        app_label = "identity"
        indexes = (models.Index(fields=["name"], name="institution_by_name"),)

    @property
    def domain(self) -> str:
        """One for people, beside the name; "": it has none."""
        return str(self.scopes[0]) if self.scopes else ""
