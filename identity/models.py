"""Users and their API tokens."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Length


class User(AbstractUser):
    """A person or program that asks for transfers; `username` is the part before `#` in endpoint names."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is kept: the token itself is shown once, when it is made."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    label = models.CharField(max_length=128, blank=True)
    digest = models.BinaryField(max_length=32, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(digest__length=32), name="api_token_digest_is_sha256"),
        )


models.BinaryField.register_lookup(Length)
