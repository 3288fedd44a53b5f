"""Invitations, and requests to sign up whose mail address is not proven yet."""

from __future__ import annotations

import uuid

from django.db import models


class Invitation(models.Model):
    """A link with which one person may make one account. The link is shown once; the table has its digest."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    digest = models.BinaryField(max_length=32, unique=True)
    #: The only address that may use it, in lower case; "": any.
    email = models.CharField(max_length=254, blank=True, default="")
    #: The user who invited; None: the operator, on the command line.
    made_by = models.ForeignKey("identity.User", on_delete=models.SET_NULL, null=True, related_name="+")
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey("identity.User", on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        app_label = "identity"


class SignUpRequest(models.Model):
    """A request for an account, at most one for each address. No account exists before its link was used.

    It is the outbox of its mail, too. The link's code is made when the mail is sent, so that it is in the mail only.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    #: In lower case.
    email = models.CharField(max_length=254, unique=True)
    invitation = models.ForeignKey(Invitation, on_delete=models.CASCADE, null=True, related_name="+")
    asked_at = models.DateTimeField()
    #: SHA-256 of the code. None: no mail was sent yet.
    digest = models.BinaryField(max_length=32, null=True, unique=True)
    expires_at = models.DateTimeField(db_index=True)
    attempts = models.SmallIntegerField(default=0)
    #: None: the mail was sent.
    next_try_at = models.DateTimeField(null=True, db_index=True)

    class Meta:
        app_label = "identity"
