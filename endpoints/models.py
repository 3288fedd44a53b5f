"""The registry: endpoints and the servers behind them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class Endpoint(models.Model):
    """A named place of data: `owner#name` and a UUID, served by one or more servers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="endpoints")
    #: The part after `#`; the UUID for endpoints that were created without a name.
    name = models.CharField(max_length=128)
    display_name = models.CharField(max_length=256, blank=True)
    description = models.TextField(blank=True)
    organization = models.CharField(max_length=256, blank=True)
    department = models.CharField(max_length=256, blank=True)
    keywords = models.CharField(max_length=1024, blank=True)
    contact_email = models.CharField(max_length=256, blank=True)
    contact_info = models.CharField(max_length=1024, blank=True)
    info_link = models.CharField(max_length=1024, blank=True)
    public = models.BooleanField(default=False)
    #: An agent serves it, with the rights of the person who runs it: without a role others may see it at most.
    personal = models.BooleanField(default=False, db_default=False)
    #: The default path of a listing; "/~/" is the home folder that the server chooses.
    default_directory = models.CharField(max_length=4096, default="/~/")
    #: Upper bound of control connections that all tasks together hold to this endpoint.
    max_sessions = models.PositiveIntegerField(default=32)
    #: How much load one task may put on this endpoint (Transfer API, network_use): a word for preset values of the four
    #: numbers below, which are then null, or "custom" for the numbers themselves.
    network_use = models.CharField(
        max_length=10,
        choices=[(word, word) for word in ("normal", "minimal", "aggressive", "custom")],
        default="normal",
    )
    max_concurrency = models.PositiveIntegerField(null=True)
    preferred_concurrency = models.PositiveIntegerField(null=True)
    max_parallelism = models.PositiveIntegerField(null=True)
    preferred_parallelism = models.PositiveIntegerField(null=True)
    #: The issuer of credentials for this endpoint's `gsiftp` servers; "" when there is none: "host:port" of a MyProxy
    #: server, and the subject of its certificate if that is not its host name.
    myproxy_server = models.CharField(max_length=262, blank=True)
    myproxy_dn = models.CharField(max_length=1024, blank=True)
    #: The https address of an OAuth server that issues certificates.
    oauth_server = models.CharField(max_length=1024, blank=True)
    #: Further hosts to whose addresses these servers may send data connections: data nodes of striped servers.
    data_hosts = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    #: Limits of all transfers from and to it together (`bandwidth.py`). A shared endpoint has those of its host.
    bandwidth_limits = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    #: For `ssh` servers: the endpoint through whose server they are reached (ProxyJump), with the account and the key
    #: that the user has activated there; and the ports "LOW-HIGH" of data connections that our server awaits, "": any.
    jump_host = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    data_ports = models.CharField(max_length=11, blank=True, default="", db_default="")
    #: Set for a shared endpoint: the host endpoint and the shared folder on it, which begins and ends with "/".
    #: A shared endpoint has no servers of its own; its owner's credential is used on those of the host.
    host = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="shares")
    host_path = models.TextField(blank=True)
    #: Whether every user of this (public) endpoint may share folders of it, with their own access rights.
    allow_guest_collections = models.BooleanField(default=False)
    #: A message that clients show to users of the endpoint, and a link to more information.
    user_message = models.TextField(blank=True)
    user_message_link = models.CharField(max_length=1024, blank=True)
    #: Apply to every transfer from and to the endpoint; a share also has the settings of its host.
    force_encryption = models.BooleanField(default=False)
    force_verify = models.BooleanField(default=False)
    disable_verify = models.BooleanField(default=False)
    #: Demands on the sign-in of whoever reads or writes (`assurance/demands.py`); null, False: none. At a share, the
    #: demands of its host hold, too.
    authentication_timeout_mins = models.PositiveIntegerField(null=True)
    authentication_domains = models.JSONField(null=True)
    mfa_required = models.BooleanField(default=False, db_default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    #: Deleted endpoints stay as rows while a task refers to them (`transferapi.tasks.upkeep.old_records`).
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=models.Q(deleted_at__isnull=True),
                name="endpoint_name_unique_per_owner",
            ),
            models.CheckConstraint(condition=~models.Q(name=""), name="endpoint_name_not_empty"),
            models.CheckConstraint(
                condition=models.Q(host__isnull=True, host_path="")
                | models.Q(host__isnull=False, host_path__startswith="/", host_path__endswith="/"),
                name="endpoint_share_has_a_path",
            ),
            # One task needs three, and twice that when the endpoint is both source and destination.
            models.CheckConstraint(condition=models.Q(max_sessions__gte=6), name="endpoint_max_sessions_min"),
            models.CheckConstraint(
                condition=~models.Q(force_verify=True, disable_verify=True), name="endpoint_verify_one_way"
            ),
        )
        # For the deletion of rows.
        indexes = (
            models.Index(fields=["deleted_at"], condition=models.Q(deleted_at__isnull=False), name="endpoint_deleted"),
            models.Index(
                fields=["jump_host"], condition=models.Q(jump_host__isnull=False), name="endpoint_of_jump_host"
            ),
        )


class Server(models.Model):
    """One physical address of an endpoint, such as `gsiftp://dtn1.example.org:2811`."""

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="servers")
    #: As `endpoints.protocols` has them; of a newer version others, too.
    scheme = models.CharField(max_length=8)
    hostname = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    #: Expected certificate subject, when it differs from the host name (GSI); the fingerprint of the host key (ssh).
    subject = models.CharField(max_length=1024, blank=True)
    #: Another host key than `subject`, which the server has shown since; "": none. Tasks wait for the owner.
    shown_host_key = models.CharField(max_length=64, blank=True, default="", db_default="")
    #: A person gave or compared the host key in `subject`; False if it was read from the network, or there is none.
    host_key_confirmed = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(fields=["endpoint", "scheme", "hostname", "port"], name="server_unique"),
            models.CheckConstraint(condition=models.Q(port__gte=1, port__lte=65535), name="server_port_in_range"),
        )


class Role(models.Model):
    """A role on an endpoint, of a user or group other than its owner (Transfer API, `role`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="roles", db_index=False)
    principal_type = models.CharField(max_length=8, choices=[(word, word) for word in ("identity", "group")])
    #: The id of a user or of a group; after its deletion the row has no effect.
    principal = models.UUIDField()
    role = models.CharField(
        max_length=24,
        choices=[(word, word) for word in ("administrator", "access_manager", "activity_manager", "activity_monitor")],
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["endpoint", "principal_type", "principal", "role"], name="role_once"),
        )
        indexes = (models.Index(fields=["principal"], name="role_by_principal"),)


class AccessRule(models.Model):
    """Permission to read, or to read and write, below a path of a shared endpoint (Transfer API, `access`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="access_rules", db_index=False)
    principal_type = models.CharField(
        max_length=24,
        choices=[(word, word) for word in ("identity", "group", "all_authenticated_users", "anonymous")],
    )
    #: The id of a user or of a group; null for the other types.
    principal = models.UUIDField(null=True)
    #: Below the shared folder; begins and ends with "/".
    path = models.TextField()
    permissions = models.CharField(max_length=2, choices=[("r", "r"), ("rw", "rw")])
    notify_email = models.CharField(max_length=256, blank=True)
    notify_message = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)
    #: None: the rule does not expire.
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["endpoint", "principal_type", "principal", "path"],
                nulls_distinct=False,
                name="access_rule_once",
            ),
            models.CheckConstraint(
                condition=models.Q(principal_type__in=["identity", "group"], principal__isnull=False)
                | models.Q(principal_type__in=["all_authenticated_users", "anonymous"], principal__isnull=True),
                name="access_rule_principal_where_needed",
            ),
            models.CheckConstraint(
                condition=models.Q(path__startswith="/", path__endswith="/"), name="access_rule_path_is_a_folder"
            ),
        )
        indexes = (models.Index(fields=["principal"], name="access_rule_by_principal"),)


class Bookmark(models.Model):
    """A folder that a user has saved."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="bookmarks", db_index=False
    )
    name = models.CharField(max_length=128)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="+")
    path = models.TextField()
    pinned = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "name"], name="bookmark_name_unique"),)


class PauseRule(models.Model):
    """Operations on an endpoint that an activity manager has paused (Transfer API, `pause_rule`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="pause_rules")
    #: The user whom the rule affects; null: all users.
    identity = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+", db_index=False
    )
    message = models.TextField(blank=True)
    start_time = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    modified_time = models.DateTimeField()
    modified_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    #: A manager of the host created this rule on a shared endpoint. Only managers of the host may change it.
    created_by_host_manager = models.BooleanField(default=False)
    pause_ls = models.BooleanField(default=False)
    pause_mkdir = models.BooleanField(default=False)
    pause_rename = models.BooleanField(default=False)
    pause_symlink = models.BooleanField(default=False)
    pause_task_delete = models.BooleanField(default=False)
    pause_task_transfer_write = models.BooleanField(default=False)
    pause_task_transfer_read = models.BooleanField(default=False)


class Agent(models.Model):
    """The program on a machine that serves an endpoint and connects to us (`endpoints/connect`); most have none.

    `endpoints/connect/presence.py` writes the columns from `connected_at` on; `endpoints/connect/` writes the others.
    """

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="agent")
    #: SHA-256 of the secret of the newest setup key, which may be used once. None if there has been none.
    setup_key_hash = models.BinaryField(max_length=32, null=True)
    setup_expires_at = models.DateTimeField(null=True)
    setup_used_at = models.DateTimeField(null=True)
    #: SubjectPublicKeyInfo in PEM of the agent's key pair; "" before the first setup.
    public_key = models.TextField(blank=True)
    #: The serial number of the newest certificate in hexadecimal, and its end.
    certificate_serial = models.CharField(max_length=40, blank=True)
    certificate_expires_at = models.DateTimeField(null=True)
    #: From then on the key pair is refused. A new setup clears it.
    revoked_at = models.DateTimeField(null=True)
    #: Of the program, as it last said.
    version = models.CharField(max_length=64, blank=True)
    platform = models.CharField(max_length=128, blank=True)
    #: The person at the machine has asked it to take no transfers.
    paused = models.BooleanField(default=False)
    #: The beginning of the tunnel that is open; None while there is none.
    connected_at = models.DateTimeField(null=True)
    #: None: never.
    last_seen_at = models.DateTimeField(null=True)
    #: The address of the relay process that has the tunnel; "" while there is none.
    relay = models.CharField(max_length=255, blank=True)
    #: Grows by one with each tunnel that a relay accepts: the newest one counts.
    epoch = models.BigIntegerField(default=0)
    #: When its owner last got a mail that two machines use one key pair.
    clone_reported_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["setup_key_hash"], condition=models.Q(setup_key_hash__isnull=False), name="agent_setup_key_once"
            ),
            models.UniqueConstraint(
                fields=["public_key"], condition=~models.Q(public_key=""), name="agent_public_key_once"
            ),
        )
        indexes = (models.Index(fields=["relay"], name="agent_by_relay", condition=~models.Q(relay="")),)


class AgentAuthority(models.Model):
    """A certificate authority of this service, for agents. The newest signs; the others are still trusted.

    `endpoints/connect/authority.py` writes it; the private key is encrypted by the key of the vault.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    certificate = models.TextField()
    created_at = models.DateTimeField()
    key_id = models.CharField(max_length=16)
    sealed = models.BinaryField()


class RelayProcess(models.Model):
    """A relay process that runs, or has run. Agents whose `relay` names it are connected while it beats."""

    #: Where web servers and workers reach it, as `Agent.relay` has it.
    address = models.CharField(max_length=255, primary_key=True)
    heartbeat_at = models.DateTimeField()


class RelayedOctets(models.Model):
    """The octets that the relay has passed on for an endpoint on one day (UTC), in both directions."""

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    octets = models.BigIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["endpoint", "day"], name="relayed_octets_once"),)


class UploadRecord(models.Model):
    """One beginning of an upload, and the temporary file that it alone writes (`endpoints/files/upload_records.py`)."""

    #: In the name of the temporary file.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="+", db_index=False)
    #: The folder of the file, as its users name it, in octets.
    folder = models.BinaryField(max_length=4096)
    #: SHA-256 of user, endpoint, path and upload_id; null: it has been given up, or another beginning has its place.
    key = models.CharField(max_length=64, null=True, unique=True)
    total = models.BigIntegerField()
    #: Octets that the server has acknowledged.
    received = models.BigIntegerField(default=0)
    is_complete = models.BooleanField(default=False)
    #: Grows where a part was broken off, and is in the name of the temporary file: what its server still does with the
    #: former name harms nothing.
    attempt = models.PositiveIntegerField(default=0)
    is_torn = models.BooleanField(default=False)
    #: The request that writes it, and when another may take its place; null: none.
    writer = models.UUIDField(null=True)
    held_until = models.DateTimeField(null=True)
    #: SHA-256 of endpoint and path while the file gets its name: one at a time.
    target = models.CharField(max_length=64, null=True, unique=True)
    #: When it is given up; of one that has been: when its temporary file is removed. Removals that were tried.
    due_at = models.DateTimeField()
    removals = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = (
            models.Index(fields=["due_at"], name="upload_by_due"),
            # For the deletion of endpoints.
            models.Index(fields=["endpoint"], name="upload_of_endpoint"),
        )
