"""The table of linked identities. `identity.models` imports it, so that Django finds it."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Lower


class LinkedIdentity(models.Model):
    """An identity that a user has proven at a provider, and signs in with. `identity.linked.services` writes it.

    Its id names the user in access rules and roles, as the id of the user does.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey("identity.User", on_delete=models.CASCADE, related_name="linked_identities")
    #: "oidc:<issuer>", "oauth2:<address>", "saml:<entity id>" or "myproxy:<host:port>": who vouches for the subject.
    provider = models.CharField(max_length=1100)
    #: Stable, and unique at this provider; a name or an address, which a provider may give to another person, is not.
    subject = models.CharField(max_length=1024)
    #: SHA-256 of both: a row of an index holds 2,700 octets at most.
    digest = models.BinaryField(max_length=32, unique=True)
    #: `name@domain`, as the provider said at the last sign-in. Another identity may have the same name.
    username = models.CharField(max_length=512)
    email = models.CharField(max_length=254, blank=True, default="")
    #: Whether the provider says that the address belongs to this person.
    email_verified = models.BooleanField(default=False)
    name = models.CharField(max_length=256, blank=True, default="")
    organization = models.CharField(max_length=256, blank=True, default="")
    linked_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    #: The identity that is shown for the user. None of a user is primary: the user's own name is shown.
    primary = models.BooleanField(default=False)

    class Meta:
        app_label = "identity"
        constraints = (
            models.UniqueConstraint(
                fields=["user"], condition=models.Q(primary=True), name="linked_identity_one_primary"
            ),
        )
        indexes = (models.Index(Lower("username"), name="linked_identity_by_name"),)
