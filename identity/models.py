"""Users, their API tokens, and what the vault keeps for them."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Length
from django.dispatch import receiver


class User(AbstractUser):
    """A person or program that asks for transfers; `username` is the part before `#` in endpoint names."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


@receiver(models.signals.pre_delete, sender=User)
def wait_for_who_stores(instance: User, using: str, **_: object) -> None:
    """The vault locks the user whom it stores for: what is stored now is deleted with the user, or comes too late."""
    User.objects.using(using).select_for_update(no_key=True).filter(pk=instance.pk).first()


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


class Credential(models.Model):
    """What a user has given us to act for him somewhere: sealed, with the facts about it that are no secret.

    Only `identity.vault` writes here: the seal binds the octets to the row (its id, user, binding and kind).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="credentials", db_index=False)
    #: "endpoint:<uuid>", "myproxy:host:port" or "oauth:https://host/path".
    bound_to = models.CharField(max_length=1024)
    kind = models.CharField(max_length=8)
    #: Whom it is about: a certificate's subject, an ssh account.
    subject = models.TextField()
    stored_at = models.DateTimeField()
    #: None: it does not expire by itself.
    expires_at = models.DateTimeField(null=True)
    #: The key that it is sealed by, as the envelope has it too.
    key_id = models.CharField(max_length=16)
    sealed = models.BinaryField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "bound_to"], name="credential_one_a_binding"),
            models.CheckConstraint(condition=models.Q(kind__in=["x509", "ssh"]), name="credential_kind_is_known"),
        )
        indexes = (
            models.Index(
                fields=["expires_at"], name="credential_expires", condition=models.Q(expires_at__isnull=False)
            ),
            models.Index(fields=["key_id"], name="credential_key"),
        )


class Activation(models.Model):
    """With which credential a user has activated an endpoint last.

    A credential of a MyProxy or OAuth server serves other endpoints too, at which nobody has asked for it yet.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: "endpoint:<uuid>".
    place = models.CharField(max_length=64, db_index=True)
    #: Of `Credential`, which may be gone: no other one ever has its id.
    credential_id = models.UUIDField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "place"], name="activation_once"),)


class PendingSecret(models.Model):
    """Half of something that the user will finish: a key whose certificate he signs, the verifier of an OAuth code.

    Taken once, or gone when its time is over. `token_digest` is the SHA-256 of what the taker must show, if anything.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="pending_secrets")
    purpose = models.CharField(max_length=32)
    bound_to = models.CharField(max_length=1024)
    token_digest = models.BinaryField(max_length=32, null=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    key_id = models.CharField(max_length=16)
    sealed = models.BinaryField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "purpose", "token_digest"], name="pending_secret_one_a_token"),
            models.UniqueConstraint(
                fields=["user", "purpose", "bound_to"],
                condition=models.Q(token_digest__isnull=True),
                name="pending_secret_one_a_binding",
            ),
        )


class CertificateSubject(models.Model):
    """A certificate subject that proves a user at the door: a TLS client certificate, verified by who ends the TLS."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="certificate_subjects")
    #: As the grid writes it: /O=Grid/OU=Site/CN=Alice.
    subject = models.CharField(max_length=1024, unique=True)
    label = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)


class Group(models.Model):
    """People who are given something together (Groups API v2)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=256)
    description = models.TextField(blank=True)
    #: What members agree to; shown, never asked for.
    terms_and_conditions = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    #: Who may see that it exists, and who may see who is in it.
    group_visibility = models.CharField(
        max_length=16, choices=[(word, word) for word in ("authenticated", "private")], default="private"
    )
    group_members_visibility = models.CharField(
        max_length=16, choices=[(word, word) for word in ("members", "managers")], default="managers"
    )
    #: Whether people may ask to join.
    join_requests = models.BooleanField(default=False)
    #: Fields that a member must fill in.
    signup_fields = models.JSONField(default=list)


class Membership(models.Model):
    """A user in a group, or on the way in or out. Only an active one gives anything."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(
        max_length=8, choices=[(word, word) for word in ("member", "manager", "admin")], default="member"
    )
    status = models.CharField(
        max_length=8,
        choices=[(word, word) for word in ("active", "invited", "pending", "rejected", "removed", "left", "declined")],
    )
    fields = models.JSONField(default=dict)
    #: Who invited, approved or removed him last.
    updated_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["group", "user"], name="membership_once"),)


class ClientSecret(models.Model):
    """A secret of an application, shown once. Random and as long as a key, so that a plain SHA-256 keeps it well."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    application = models.ForeignKey("oauth2_provider.Application", on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=128, blank=True)
    digest = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(auto_now_add=True)


class SignIn(models.Model):
    """What a user has allowed an application, at one time: all tokens that came of one authorization code.

    Its id is the `token_family` of their refresh tokens.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_ins", db_index=False)
    application = models.ForeignKey("oauth2_provider.Application", on_delete=models.CASCADE, related_name="sign_ins")
    scope = models.TextField()
    #: SHA-256 of the code: who shows a used one again ends all of this.
    code_digest = models.BinaryField(max_length=32, unique=True)
    #: When the user had last shown who he is.
    authenticated_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = (models.Index(fields=["user", "application"], name="sign_in_user_application"),)


class SignInToken(models.Model):
    """An access token of a sign-in."""

    access_token = models.OneToOneField(
        "oauth2_provider.AccessToken", on_delete=models.CASCADE, primary_key=True, related_name="sign_in_token"
    )
    sign_in = models.ForeignKey(SignIn, on_delete=models.CASCADE, related_name="tokens")


class GroupPreference(models.Model):
    """What a user lets groups do with him; no row: everything."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="group_preference")
    #: Whether managers may add him without asking; inviting him they always may.
    allow_add = models.BooleanField(default=True)


models.BinaryField.register_lookup(Length)
