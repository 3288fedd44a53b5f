"""Events of tasks, and the mails and webhooks that report them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from .fields import TransactionIdField
from .task import Task


class Event(models.Model):
    """An event of a task's history; appended in the transaction of the change that it reports."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="events", db_index=False)
    time = models.DateTimeField()
    code = models.CharField(max_length=64)
    is_error = models.BooleanField(default=False)
    description = models.TextField()
    #: The description as `Sentence.record`; None where it is in English only, as are those of earlier versions.
    sentence = models.JSONField(null=True)
    #: Text; JSON text for STARTED, PROGRESS and SUCCEEDED, as the Transfer API has it.
    details = models.TextField()
    #: Ids are assigned in another order than transactions commit; readers that resume need this column.
    written_by = TransactionIdField(
        db_default=models.Func(function="pg_current_xact_id", output_field=models.TextField()), editable=False
    )

    class Meta:
        indexes = (
            models.Index(fields=["task", "-id"], name="event_by_task"),
            models.Index(fields=["written_by"], name="event_by_transaction"),
        )


class Mail(models.Model):
    """A mail to a user: written in the transaction of the change that it reports, sent later by `mail_sender.py`."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.SET_NULL, related_name="+", null=True, db_index=False)
    #: Identifies the fact that the mail reports, so that it is reported once.
    key = models.CharField(max_length=200, unique=True)
    subject = models.CharField(max_length=250)
    body = models.TextField()
    created_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    #: None: sent, or given up.
    next_try_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(fields=["next_try_at"], condition=models.Q(next_try_at__isnull=False), name="mail_to_be_sent"),
            # For the deletion of tasks.
            models.Index(fields=["task"], condition=models.Q(task__isnull=False), name="mail_of_task"),
        )


class MailPreference(models.Model):
    """Whether a user wants the mails of this module. No row: the user does."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="mail_preference"
    )
    enabled = models.BooleanField(default=True)


class Webhook(models.Model):
    """A URL that gets the status changes of a user's tasks. Its secret is encrypted like the vault's."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=2048)
    #: The task states that it gets (SUCCEEDED, FAILED, INACTIVE, ACTIVE).
    statuses = models.JSONField(default=list)
    key_id = models.CharField(max_length=16)
    sealed_secret = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)
    #: Set when it has not replied for too long: nothing more is sent.
    disabled_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)
    #: Consecutive failed attempts, and since when; nothing is sent before `not_before`.
    failures = models.IntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)


class Delivery(models.Model):
    """A message to a webhook: written in the transaction of the change, sent until it is accepted or too old."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    #: None: a test message.
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+", db_index=False, null=True)
    body = models.JSONField()
    made_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    #: None: accepted, or given up.
    next_try_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    #: The HTTP status of the last attempt, and its error.
    last_status = models.IntegerField(null=True)
    last_error = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = (
            models.Index(fields=["next_try_at"], condition=models.Q(next_try_at__isnull=False), name="delivery_due"),
            models.Index(fields=["webhook", "-made_at"], name="delivery_of_webhook"),
            models.Index(fields=["made_at"], name="delivery_by_age"),
            # For the deletion of tasks.
            models.Index(fields=["task"], condition=models.Q(task__isnull=False), name="delivery_of_task"),
        )
