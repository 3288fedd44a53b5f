"""The table of the audit log. The database itself refuses to change a row, and to delete one too early (0036)."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class AuditEvent(models.Model):
    """One act. It names users by id and by the name of that time, without a reference: it outlives them.

    Only `identity.audit.log` writes here.
    """

    id = models.BigAutoField(primary_key=True)
    #: The database sets it.
    at = models.DateTimeField(db_default=Now())
    what = models.CharField(max_length=48)
    #: The user concerned; None: an unknown one.
    user_id = models.UUIDField(null=True)
    username = models.CharField(max_length=150, blank=True, default="")
    #: The user who acted, if another one; by name alone: "operator", on the machine of the service, or "scim:" and the
    #: name of a directory.
    actor_id = models.UUIDField(null=True)
    actor = models.CharField(max_length=150, blank=True, default="")
    #: The way of a sign-in: "password", "code", "passkey", ...
    way = models.CharField(max_length=16, blank=True, default="")
    #: Of the client; "": unknown.
    address = models.CharField(max_length=64, blank=True, default="")
    details = models.JSONField(default=dict)

    class Meta:
        app_label = "identity"
        indexes = (
            models.Index(fields=["at", "id"], name="audit_by_time"),
            models.Index(fields=["user_id", "id"], name="audit_by_user"),
        )
