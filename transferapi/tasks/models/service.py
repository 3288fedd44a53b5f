"""The service as a whole: the kinds of its migrations, its running processes, and its maintenance."""

from __future__ import annotations

from django.db import models


class SchemaChange(models.Model):
    """The effect of a migration on other versions, written by the version that has it: see `schema_version`."""

    app = models.CharField(max_length=255)
    name = models.CharField(max_length=255)
    effect = models.CharField(max_length=16)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["app", "name"], name="schema_change_once"),)


class ServiceProcess(models.Model):
    """A process of the service, as it reports itself: see `upkeep.service_processes`.

    Workers also write a `WorkerProcess`, with their own gauges. One row could hold both, but versions before this table
    read the other one for `waybill check worker` and for upgrades: both are written until a contraction may remove it.
    """

    #: host:pid, as in leases.
    name = models.CharField(max_length=128, primary_key=True)
    #: "web", "worker", "shell", "relay" or "events".
    kind = models.CharField(max_length=16)
    version = models.CharField(max_length=64)
    #: The migrations with an effect that its code has, as "app.name".
    knows = models.JSONField(default=list)
    #: Numbers of the moment of a relay or a shell, for `/metrics` (`upkeep.figures`); None if it has none.
    gauges = models.JSONField(null=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()


class Maintenance(models.Model):
    """The maintenance mode: it is on while the only row is there. See `tasks.maintenance`."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    message = models.CharField(max_length=500)
    #: The expected end, for clients; nothing ends by itself.
    until = models.DateTimeField(null=True)
    #: Whether tasks are kept from running, too.
    hold = models.BooleanField(default=False)
    since = models.DateTimeField()

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(id=1), name="maintenance_is_one_row"),)
