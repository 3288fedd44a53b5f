"""The rows of timers (Timers API)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class Timer(models.Model):
    """A transfer that is submitted at a time, once or again and again."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="timers")
    name = models.CharField(max_length=256, blank=True)
    #: {"type": "once", "datetime"} or {"type": "recurring", "interval_seconds", "start", "end"}.
    schedule = models.JSONField()
    #: The transfer document, without its submission_id: that is made of this row's id and the number of the run.
    body = models.JSONField()
    status = models.CharField(
        max_length=8, choices=[(word, word) for word in ("new", "loaded", "inactive", "ended")], default="new"
    )
    #: Why it is inactive: paused by its owner, or what refused its last submission.
    inactive_reason = models.JSONField(null=True)
    submitted_at = models.DateTimeField()
    #: None: never again.
    next_run = models.DateTimeField(null=True)
    last_ran_at = models.DateTimeField(null=True)
    number_of_runs = models.IntegerField(default=0)
    number_of_errors = models.IntegerField(default=0)

    class Meta:
        indexes = (models.Index(fields=["next_run"], condition=models.Q(next_run__isnull=False), name="timer_due"),)
