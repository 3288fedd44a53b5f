"""Leases of workers, due times of their rounds, and measurements of slices."""

from __future__ import annotations

from django.db import models

from endpoints.models import Endpoint

from .task import Task


class Lease(models.Model):
    """The lease of a worker on a task. Each write names the epoch, so a worker that lost its lease writes nothing."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    #: Increases by one with every acquisition.
    epoch = models.BigIntegerField(default=0)
    #: Drawn by the holder: a database that has lost its last commits gives an epoch out again. None: an older version.
    nonce = models.BigIntegerField(null=True)
    #: Empty where no worker holds it.
    worker = models.CharField(max_length=128, blank=True)
    expires_at = models.DateTimeField(null=True)
    #: Sessions to each endpoint of the task that the holder may open (the fair share).
    sessions = models.PositiveIntegerField(default=0)
    #: How often in a row a worker was lost with the task before it made progress (`worker/losses.py`).
    losses = models.IntegerField(default=0, db_default=0)
    #: The progress of the task when the lease was taken.
    progress = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(worker="", expires_at__isnull=True)
                | (~models.Q(worker="") & models.Q(expires_at__isnull=False, sessions__gte=1)),
                name="lease_held_until_a_time",
            ),
        )
        # A heartbeat changes no indexed column, and the index has one entry for each busy worker.
        indexes = (models.Index(fields=["task"], condition=~models.Q(worker=""), name="lease_held"),)


class Round(models.Model):
    """The next due time of a round of the workers: see `rounds`."""

    name = models.CharField(max_length=32, primary_key=True)
    next_at = models.DateTimeField()


class WorkerProcess(models.Model):
    """A worker process, as it reports itself: see `upkeep.worker_processes`."""

    #: host:pid, as in leases.
    name = models.CharField(max_length=128, primary_key=True)
    host = models.CharField(max_length=255)
    version = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    #: Numbers of the moment, for `/metrics` (`upkeep.figures.OF_WORKERS`); None: of a version without them.
    gauges = models.JSONField(null=True)


class Tally(models.Model):
    """A number of all workers together that only grows: see `upkeep.tallies`."""

    #: The name and the values of its labels, with spaces.
    key = models.CharField(max_length=192, primary_key=True)
    value = models.FloatField()


class PathMemory(models.Model):
    """The tuner's knowledge of a pair of endpoints, in the engine's format."""

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    destination = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    knowledge = models.JSONField(default=dict)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["source", "destination"], name="path_memory_of_a_pair"),)
        # For the deletion of endpoints.
        indexes = (models.Index(fields=["destination"], name="path_memory_to"),)


class Run(models.Model):
    """The measurement of one slice of a task, for forecasts."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="runs")
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    destination = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    ended_at = models.DateTimeField()
    #: The duration of the slice, from taking the lease to its last write.
    seconds = models.FloatField()
    files = models.BigIntegerField()
    bytes = models.BigIntegerField()
    faults = models.BigIntegerField(default=0)
    #: Seconds between this service and the farther endpoint; None where it was not measured.
    round_trip = models.FloatField(null=True)
    concurrency = models.IntegerField()
    parallelism = models.IntegerField()
    pipelining = models.IntegerField()
    #: This slice both began and finished the task: only then its seconds are those of a whole task.
    whole = models.BooleanField(default=False)

    class Meta:
        indexes = (
            models.Index(fields=["source", "destination", "-ended_at"], name="run_of_a_pair"),
            # For the deletion of endpoints.
            models.Index(fields=["destination"], name="run_to"),
        )


class EndpointFailure(models.Model):
    """An endpoint that tasks could not use when they last tried: see `tasks.endpoint_failures`."""

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, primary_key=True, related_name="+")
    #: The kind of the last fault.
    code = models.CharField(max_length=64)
    since = models.DateTimeField()
    #: The last attempt that failed.
    seen_at = models.DateTimeField()
