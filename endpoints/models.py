"""The registry: endpoints and the servers behind them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class Endpoint(models.Model):
    """A named place data lives: `owner#name` and a UUID, served by one or more servers."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="endpoints")
    #: The part after `#`; endpoints made without a name get their UUID.
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
    #: Where a listing without a path begins; "/~/" is the server's own idea of home.
    default_directory = models.CharField(max_length=4096, default="/~/")
    #: Upper bound of control connections that all tasks together hold to this endpoint.
    max_sessions = models.PositiveIntegerField(default=32)
    #: How hard one task may work this endpoint (Transfer API, network_use): a word that stands for the four numbers
    #: below, or "custom" for the numbers themselves, which are null otherwise.
    network_use = models.CharField(
        max_length=10,
        choices=[(word, word) for word in ("normal", "minimal", "aggressive", "custom")],
        default="normal",
    )
    max_concurrency = models.PositiveIntegerField(null=True)
    preferred_concurrency = models.PositiveIntegerField(null=True)
    max_parallelism = models.PositiveIntegerField(null=True)
    preferred_parallelism = models.PositiveIntegerField(null=True)
    #: Where users of this endpoint get their credentials, for `gsiftp` servers; "" when nowhere in particular.
    #: "host:port" of a MyProxy server, and the subject of its certificate where that is not its host name.
    myproxy_server = models.CharField(max_length=262, blank=True)
    myproxy_dn = models.CharField(max_length=1024, blank=True)
    #: The https address of an OAuth server that hands out certificates.
    oauth_server = models.CharField(max_length=1024, blank=True)
    #: Hosts besides its servers whose addresses these may name for data connections: data nodes of striped servers.
    data_hosts = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    #: Of a shared endpoint: the endpoint that its folder lies on, and the folder, which begins and ends with "/".
    #: It has no servers of its own; its owner's credential opens those of the host.
    host = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="shares")
    host_path = models.TextField(blank=True)
    #: Whether everybody who may use this (public) endpoint may share folders of it: he lends what is his own.
    allow_guest_collections = models.BooleanField(default=False)
    #: What clients show to who uses it, and where there is more to read.
    user_message = models.TextField(blank=True)
    user_message_link = models.CharField(max_length=1024, blank=True)
    #: What holds for every transfer from and to it, whatever its user asked for; of a share, beside what its host says.
    force_encryption = models.BooleanField(default=False)
    force_verify = models.BooleanField(default=False)
    disable_verify = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    #: Deleted endpoints stay as rows, so that the history of tasks keeps its names.
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
            # One task needs three, and twice that when the endpoint is its source and its destination.
            models.CheckConstraint(condition=models.Q(max_sessions__gte=6), name="endpoint_max_sessions_min"),
            models.CheckConstraint(
                condition=~models.Q(force_verify=True, disable_verify=True), name="endpoint_verify_one_way"
            ),
        )


class Server(models.Model):
    """One physical address of an endpoint, such as `gsiftp://dtn1.example.org:2811`."""

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="servers")
    scheme = models.CharField(max_length=8, choices=[("ftp", "ftp"), ("gsiftp", "gsiftp"), ("sshftp", "sshftp")])
    hostname = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    #: Expected certificate subject, when it differs from the host name (GSI).
    subject = models.CharField(max_length=1024, blank=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(fields=["endpoint", "scheme", "hostname", "port"], name="server_unique"),
            models.CheckConstraint(condition=models.Q(port__gte=1, port__lte=65535), name="server_port_in_range"),
        )


class Role(models.Model):
    """What somebody besides the owner is for an endpoint (Transfer API, `role`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="roles", db_index=False)
    principal_type = models.CharField(max_length=8, choices=[(word, word) for word in ("identity", "group")])
    #: The id of a user or of a group; who is gone has no power, and no row keeps him.
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
    """Who may read, or read and write, below a path of a shared endpoint, until a date (Transfer API, `access`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="access_rules", db_index=False)
    principal_type = models.CharField(
        max_length=24,
        choices=[(word, word) for word in ("identity", "group", "all_authenticated_users", "anonymous")],
    )
    #: The id of a user or of a group; null where the type says it all.
    principal = models.UUIDField(null=True)
    #: Below the folder that is shared; begins and ends with "/".
    path = models.TextField()
    permissions = models.CharField(max_length=2, choices=[("r", "r"), ("rw", "rw")])
    notify_email = models.CharField(max_length=256, blank=True)
    notify_message = models.TextField(blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    created_at = models.DateTimeField(auto_now_add=True)
    #: None: until it is taken back.
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
    """A place that a user wants to find again."""

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
    """What an activity manager of an endpoint has stopped there for a while (Transfer API, `pause_rule`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="pause_rules")
    #: Whom it stops; null: everybody.
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
    #: Of a rule on a shared endpoint: made by those who run its host, who alone may change it.
    created_by_host_manager = models.BooleanField(default=False)
    pause_ls = models.BooleanField(default=False)
    pause_mkdir = models.BooleanField(default=False)
    pause_rename = models.BooleanField(default=False)
    pause_symlink = models.BooleanField(default=False)
    pause_task_delete = models.BooleanField(default=False)
    pause_task_transfer_write = models.BooleanField(default=False)
    pause_task_transfer_read = models.BooleanField(default=False)
