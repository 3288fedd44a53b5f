"""The table of changes of mail addresses. `identity.models` imports it, so that Django finds it."""

from __future__ import annotations

import uuid

from django.db import models


class AddressChange(models.Model):
    """A mail address that a user wants, until it is proven and for a day longer. The present one holds meanwhile."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # Without a constraint: code of an earlier version deletes users and does not know this table.
    user = models.ForeignKey("identity.User", on_delete=models.CASCADE, related_name="+", db_constraint=False)
    #: In lower case.
    email = models.CharField(max_length=254)
    #: The address before, which gets the notice of the change.
    former = models.CharField(max_length=254, blank=True, default="", db_default="")
    asked_at = models.DateTimeField()
    #: SHA-256 of the code. None: the mail is not sent yet, or its link was used.
    digest = models.BinaryField(max_length=32, null=True, unique=True)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        app_label = "identity"
