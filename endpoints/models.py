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
            # One task needs three, and twice that when the endpoint is its source and its destination.
            models.CheckConstraint(condition=models.Q(max_sessions__gte=6), name="endpoint_max_sessions_min"),
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
