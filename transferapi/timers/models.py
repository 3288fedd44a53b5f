"""The rows of timers (Timers API)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from transferapi.tasks.models import Task


class Timer(models.Model):
    """A transfer that is submitted at a given time, once or periodically."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="timers")
    name = models.CharField(max_length=256, blank=True)
    #: In the format of `schedule.Schedule.document`.
    schedule = models.JSONField()
    #: The transfer document as JSON, without its submission_id, which is made of this row's id and the number of the
    #: run. Text, since jsonb cannot hold names that are not UTF-8.
    body = models.TextField()
    #: new: has not run yet; loaded: has run, and will again; inactive: a person must act; ended: will not run again.
    status = models.CharField(
        max_length=8, choices=[(word, word) for word in ("new", "loaded", "inactive", "ended")], default="new"
    )
    #: The reason where it is inactive: {"cause": "user", "refused" or "held", "detail": null or {"code", "message"}}.
    inactive_reason = models.JSONField(null=True)
    submitted_at = models.DateTimeField()
    #: The next run; None: no automatic run.
    next_run = models.DateTimeField(null=True)
    last_ran_at = models.DateTimeField(null=True)
    #: The task of the last run; null also where the submission was refused.
    last_task = models.ForeignKey(Task, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    #: The error of the last run: {"code", "message"}.
    last_error = models.JSONField(null=True)
    #: The number of all runs, of refused ones, and of consecutive refused ones.
    number_of_runs = models.IntegerField(default=0)
    number_of_errors = models.IntegerField(default=0)
    refused_in_a_row = models.IntegerField(default=0)

    class Meta:
        indexes = (
            models.Index(fields=["next_run"], condition=models.Q(next_run__isnull=False), name="timer_due"),
            # For the deletion of tasks.
            models.Index(fields=["last_task"], condition=models.Q(last_task__isnull=False), name="timer_of_last_task"),
        )
