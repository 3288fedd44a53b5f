"""Directories that manage users and groups here by SCIM, their tokens, and the users that they manage.

The groups of a directory are rows of `identity.models.Group` with `scim_client`.
"""

from __future__ import annotations

import uuid

from django.db import models


class ScimClient(models.Model):
    """A directory, such as Entra ID or Okta of one institution."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    #: The operator's name for it.
    name = models.CharField(max_length=64, unique=True)
    #: Whether it may begin to manage users who are here already, by their user names.
    takes_over = models.BooleanField(default=False)
    max_users = models.IntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "identity"


class ScimToken(models.Model):
    """A bearer token of a directory; only its SHA-256 is stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    client = models.ForeignKey(ScimClient, on_delete=models.CASCADE, related_name="tokens")
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "identity"


class ScimUser(models.Model):
    """A user whom a directory manages."""

    user = models.OneToOneField(
        "identity.User", on_delete=models.CASCADE, primary_key=True, related_name="scim", db_constraint=False
    )
    client = models.ForeignKey(ScimClient, on_delete=models.CASCADE, related_name="users", db_index=False)
    external_id = models.CharField(max_length=255, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    #: Whether it was the directory that deactivated the user: it does not activate whom others deactivated.
    suspended = models.BooleanField(default=False)
    #: When the directory deleted the user. The directory may create the same user again.
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "identity"
        constraints = (
            models.UniqueConstraint(
                fields=["client", "external_id"],
                condition=~models.Q(external_id="") & models.Q(deleted_at__isnull=True),
                name="scim_user_external_id_once",
            ),
        )
        indexes = (models.Index(fields=["client", "user"], name="scim_user_of_client"),)
