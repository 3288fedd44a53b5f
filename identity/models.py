"""The tables of identity: users, sign-in, credentials, groups, consents, sign-ups, directories and the audit log.

The table of the metadata of institutions (SAML) is in `identity.models`.
"""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Length, Lower, Now
from django.dispatch import receiver


class User(AbstractUser):
    """A person or program that asks for transfers; `username` is the part before `#` in endpoint names."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    #: Whether sign-in by password also asks for a passkey, or for a one-time code where the user has codes.
    passkey_after_password = models.BooleanField(default=False)
    #: The language of mails to the user (`identity/languages.py`); "": not known yet.
    language = models.CharField(max_length=16, blank=True, default="", db_default="")


@receiver(models.signals.pre_delete, sender=User)
def wait_for_who_stores(instance: User, using: str, **_: object) -> None:
    """Take the lock that the vault takes to store for this user: a concurrent store ends first, or fails."""
    User.objects.using(using).select_for_update(no_key=True).filter(pk=instance.pk).first()


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is stored: the token itself is shown once, when it is created."""

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
    """A credential with which this service acts for a user elsewhere: encrypted, with its public facts.

    Only `identity.vault.store` writes here: the seal binds the octets to the row (its id, user, binding and kind).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="credentials", db_index=False)
    #: "endpoint:<uuid>", "myproxy:host:port" or "oauth:https://host/path".
    bound_to = models.CharField(max_length=1024)
    #: `identity.vault.store.CredentialKind`; of a newer version others, too.
    kind = models.CharField(max_length=8)
    #: The subject of a certificate, the name of an ssh account, or the id of an access key.
    subject = models.TextField()
    stored_at = models.DateTimeField()
    #: None if it does not expire.
    expires_at = models.DateTimeField(null=True)
    #: The key that seals it; the envelope names it too.
    key_id = models.CharField(max_length=16)
    sealed = models.BinaryField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "bound_to"], name="credential_one_a_binding"),)
        indexes = (
            models.Index(
                fields=["expires_at"], name="credential_expires", condition=models.Q(expires_at__isnull=False)
            ),
            models.Index(fields=["key_id"], name="credential_key"),
        )


class Activation(models.Model):
    """The credential with which a user last activated an endpoint.

    A credential of a MyProxy or OAuth server is valid at other endpoints too, which the user has not activated yet.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: "endpoint:<uuid>".
    place = models.CharField(max_length=64, db_index=True)
    #: The id of a `Credential`, which may be deleted; ids are never reused.
    credential_id = models.UUIDField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "place"], name="activation_once"),)


class PendingSecret(models.Model):
    """A secret that waits for a second step of the user: the private key of a certificate request, a code verifier.

    It is taken once, or expires. `token_digest`: SHA-256 of the token that the taker must present, if any.
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
    """A certificate subject that signs a user in: of a TLS client certificate that the TLS terminator has verified."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="certificate_subjects")
    #: The slash form: /O=Grid/OU=Site/CN=Alice.
    subject = models.CharField(max_length=1024, unique=True)
    label = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)


class SshPublicKey(models.Model):
    """A public key by which a user signs in to the ssh shell. `identity.ssh_keys` reads and writes it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_public_keys", db_index=False)
    label = models.CharField(max_length=128, blank=True)
    algorithm = models.CharField(max_length=32)
    #: The octets on the wire (RFC 4253, 6.6).
    blob = models.BinaryField()
    #: "SHA256:...", as `ssh-keygen -l` shows it.
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    #: None if it does not expire.
    expires_at = models.DateTimeField(null=True)
    #: A list of names of commands, and a list of UUIDs of endpoints. None: no restriction.
    commands = models.JSONField(null=True)
    endpoints = models.JSONField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "fingerprint"], name="ssh_public_key_once"),)


class OneTimeCodeSecret(models.Model):
    """The secret of a user's one-time codes (RFC 6238), encrypted. `identity.one_time_codes` writes it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="one_time_code_secret")
    created_at = models.DateTimeField(auto_now_add=True)
    #: The time of the first code. None: sign-in does not ask for codes yet.
    confirmed_at = models.DateTimeField(null=True)
    #: The time step of the last code that was accepted: no code up to it is accepted again.
    last_step = models.BigIntegerField(default=0)
    key_id = models.CharField(max_length=16)
    sealed = models.BinaryField()


class RecoveryCode(models.Model):
    """A code that signs a user in once, in place of a one-time code. It is random, so a plain SHA-256 is enough."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes", db_index=False)
    digest = models.BinaryField(max_length=32)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "digest"], name="recovery_code_once"),)


class Passkey(models.Model):
    """A passkey (WebAuthn credential) of a user. `identity.passkeys` reads and writes it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="passkeys")
    label = models.CharField(max_length=128)
    #: At most 1,023 octets (WebAuthn level 2, 4).
    credential_id = models.BinaryField(max_length=1023)
    #: COSE_Key (RFC 9052, 7).
    public_key = models.BinaryField()
    #: How the browser reaches the authenticator: "internal", "usb", ...
    transports = models.JSONField(default=list)
    #: The last value of the signature counter; 0: the authenticator does not count.
    sign_count = models.BigIntegerField(default=0)
    #: Set when the counter went back: a copy of the key exists, and it signs in no more.
    copied_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["credential_id"], name="passkey_once"),)


class RecoveryRequest(models.Model):
    """A request for a new password by mail, as it was typed. A worker looks for the user, so that the web server's
    answer takes the same time for every text."""

    id = models.BigAutoField(primary_key=True)
    #: A user name or a mail address.
    name = models.CharField(max_length=254)
    asked_at = models.DateTimeField(auto_now_add=True)


class RecoveryLink(models.Model):
    """A link by which a user sets a new password, once. Its code is made when the mail is sent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_links")
    #: SHA-256 of the code. None: the mail is not sent yet.
    digest = models.BinaryField(max_length=32, null=True, unique=True)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)


class Group(models.Model):
    """A group of users that can be given access together (Groups API v2)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=256)
    description = models.TextField(blank=True)
    #: Shown to members; the service asks for no agreement.
    terms_and_conditions = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    #: The audience that sees the group, and the audience that sees its members.
    group_visibility = models.CharField(
        max_length=16, choices=[(word, word) for word in ("authenticated", "private")], default="private"
    )
    group_members_visibility = models.CharField(
        max_length=16, choices=[(word, word) for word in ("members", "managers")], default="managers"
    )
    #: Whether users may ask to join.
    join_requests = models.BooleanField(default=False)
    #: Fields that members must fill in.
    signup_fields = models.JSONField(default=list)
    #: The directory that manages the group (`identity/scim`): people do not change it. None: people manage it.
    scim_client = models.ForeignKey("identity.ScimClient", on_delete=models.PROTECT, null=True, related_name="groups")
    #: The directory's own id of the group.
    scim_external_id = models.CharField(max_length=255, blank=True, default="", db_default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scim_client", "scim_external_id"],
                condition=~models.Q(scim_external_id=""),
                name="scim_group_external_id_once",
            ),
        )


class Membership(models.Model):
    """The membership of a user in a group, in any state. Only an active membership grants anything."""

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
    #: The user who last invited, approved or removed this member.
    updated_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["group", "user"], name="membership_once"),)


class ClientSecret(models.Model):
    """A secret of an application, shown once. It is random and as long as a key, so a plain SHA-256 is enough."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    application = models.ForeignKey("oauth2_provider.Application", on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=128, blank=True)
    digest = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(auto_now_add=True)


class ClientOptions(models.Model):
    """The choices of an application beyond the columns of the toolkit. No row: every default."""

    application = models.OneToOneField(
        "oauth2_provider.Application", on_delete=models.CASCADE, primary_key=True, related_name="options"
    )
    #: Whether each use replaces a refresh token, and a second use of an old one ends the sign-in.
    rotates_refresh_tokens = models.BooleanField(db_default=False, default=False)
    #: By which its identity tokens are signed: RS256 or RS512; empty: by what is known of the program.
    id_token_algorithm = models.CharField(max_length=8, blank=True, db_default="", default="")
    #: Whether the operator admitted it by the id that it has at Globus, and users may come back to Globus' code page.
    globus_code_page = models.BooleanField(db_default=False, default=False)


class SignIn(models.Model):
    """The consent of a user to an application, given once: all tokens derived from one authorization code.

    Its id is the `token_family` of their refresh tokens.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_ins", db_index=False)
    application = models.ForeignKey("oauth2_provider.Application", on_delete=models.CASCADE, related_name="sign_ins")
    scope = models.TextField()
    #: The scopes as requested, with their dependencies in brackets. None: none of them had any.
    requested = models.TextField(null=True)
    #: SHA-256 of the code. A second use of the code ends the whole sign-in.
    code_digest = models.BinaryField(max_length=32, unique=True)
    #: The time when the user last authenticated, how, and with which identity ("": a name of this service).
    authenticated_at = models.DateTimeField()
    way = models.CharField(max_length=16, default="", db_default="")
    identity = models.CharField(max_length=512, default="", db_default="")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = (models.Index(fields=["user", "application"], name="sign_in_user_application"),)


class SignInToken(models.Model):
    """An access token of a sign-in."""

    access_token = models.OneToOneField(
        "oauth2_provider.AccessToken", on_delete=models.CASCADE, primary_key=True, related_name="sign_in_token"
    )
    sign_in = models.ForeignKey(SignIn, on_delete=models.CASCADE, related_name="tokens")


class Registration(models.Model):
    """Where a program registered itself; kept for a day, to count the registrations of a network that nobody uses."""

    # Without a constraint: code of an earlier version deletes applications and does not know this table.
    application = models.OneToOneField(
        "oauth2_provider.Application",
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="registration",
        db_constraint=False,
    )
    #: `identity.networks.network_of` the address of the request.
    network = models.CharField(max_length=64)
    #: The id of the program's template.
    kind = models.CharField(max_length=36)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = (models.Index(fields=["network", "kind"], name="registration_of_network"),)


class UserSession(AbstractBaseSession):
    """A session of the pages (`identity/sessions`). user: None if nobody has signed in."""

    # Without a constraint: a session that is saved while its user is deleted is not an error, and expires.
    user = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="sessions", null=True, db_index=False, db_constraint=False
    )
    #: Shown to the user: when and how the user signed in, from which address, and with which browser (User-Agent).
    begun_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    way = models.CharField(max_length=16, blank=True, default="")
    address = models.CharField(max_length=64, blank=True, default="")
    browser = models.CharField(max_length=256, blank=True, default="")

    class Meta(AbstractBaseSession.Meta):
        indexes = (models.Index(fields=["user", "-expire_date"], name="session_of_user"),)


class GroupPreference(models.Model):
    """Whether group managers may add a user without asking. No row: they may."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="group_preference")
    #: Whether managers may add the user directly. They may always invite.
    allow_add = models.BooleanField(default=True)


models.BinaryField.register_lookup(Length)


# Tables of subpackages, which Django finds here.


class LinkedIdentity(models.Model):
    """An identity that a user has proven at a provider, and signs in with. `identity.linked_identities` writes it.

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


class AuditEvent(models.Model):
    """One act. It names users by id and by the name of that time, without a reference: it outlives them.

    Only `identity.audit` writes here.
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


class Institution(models.Model):
    """A SAML identity provider. `identity.federation.saml_directory` writes it."""

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
    #: The end of what the metadata say. None if they do not say.
    valid_until = models.DateTimeField(null=True)
    read_at = models.DateTimeField()

    class Meta:
        app_label = "identity"
        indexes = (models.Index(fields=["name"], name="institution_by_name"),)

    @property
    def domain(self) -> str:
        """The first scope of the institution, to distinguish institutions of one name; "" if it has no scope."""
        return str(self.scopes[0]) if self.scopes else ""
