"""The transfer task and all that belongs to it. PostgreSQL is the truth (truth 1)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models

from .states import FileKind, FileState, Phase, Status, TaskType

if TYPE_CHECKING:
    _OctetsField = models.BinaryField[Any, Any]
    _NumberField = models.Field[int, int]
else:
    _OctetsField = models.BinaryField
    _NumberField = models.Field


class PathField(_OctetsField):
    """A path as the bytes the server knows it by; `str` with surrogateescape in Python (like `os.fsdecode`)."""

    def from_db_value(self, value: Any, expression: object, connection: object) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "surrogateescape")

    def get_prep_value(self, value: Any) -> Any:
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value

    def to_python(self, value: Any) -> Any:
        return value


class TransactionIdField(_NumberField):
    """Which transaction wrote the row, as PostgreSQL counts them (`xid8`): the database fills it in."""

    def db_type(self, connection: object) -> str:
        return "xid8"

    def from_db_value(self, value: Any, expression: object, connection: object) -> int:
        return int(value)


class Task(models.Model):
    """One request of a user: TRANSFER or DELETE."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    type = models.CharField(max_length=8, choices=TaskType.choices)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.QUEUED)
    submission_id = models.UUIDField()
    label = models.CharField(max_length=128, null=True)
    #: DELETE tasks have only a source: the endpoint they delete on.
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", db_index=False)
    destination = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    #: Whose servers these are: the endpoints themselves, or the hosts of shared ones. Set when the task is made.
    source_host = models.ForeignKey("endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", db_index=False)
    destination_host = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    #: The options of the submission by their wire names, validated and complete (defaults filled in).
    options = models.JSONField(default=dict)

    request_time = models.DateTimeField()
    deadline = models.DateTimeField()
    #: Set when the user named the deadline: then progress does not move it.
    deadline_is_fixed = models.BooleanField(default=False)
    completion_time = models.DateTimeField(null=True)
    last_progress_at = models.DateTimeField(null=True)
    #: When a queued task may run again (end of its backoff); the order in which queued tasks get their turn.
    next_run_at = models.DateTimeField()
    cancel_requested_at = models.DateTimeField(null=True)
    #: How often in a row an endpoint could not be reached, as the last slice left it.
    connection_failures = models.IntegerField(default=0)

    #: Counters; they add up: files = files_transferred + files_skipped + files_failed when SUCCEEDED.
    items_total = models.BigIntegerField(default=0)
    items_scanned = models.BigIntegerField(default=0)
    files = models.BigIntegerField(default=0)
    directories = models.BigIntegerField(default=0)
    symlinks = models.BigIntegerField(default=0)
    files_transferred = models.BigIntegerField(default=0)
    files_skipped = models.BigIntegerField(default=0)
    files_failed = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    bytes_transferred = models.BigIntegerField(default=0)
    bytes_checksummed = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    #: Of files_skipped: those that could not be read, where skip_source_errors was asked.
    skipped_errors = models.BigIntegerField(default=0)

    #: Where store_base_path_info was asked: the deepest folders that all items lie in.
    source_base_path = models.TextField(null=True)
    destination_base_path = models.TextField(null=True)

    nice_status = models.CharField(max_length=64, null=True)
    nice_status_details = models.TextField(null=True)
    #: What was wrong with an endpoint last, until when it is left alone, and how often that was met (`troubles.py`).
    trouble = models.JSONField(null=True)
    #: The weakest protection that data channels of this task had: clear, authenticated or encrypted (`protection.py`).
    data_protection = models.CharField(max_length=16, null=True)
    #: While suspended: since when, at which endpoint a credential is missing, and when the one was stored that it had
    #: (None: there was none). Any other lets the task go on; this is no clock's matter, so nothing falls between.
    suspended_at = models.DateTimeField(null=True)
    waits_at = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    had_credential = models.DateTimeField(null=True)

    #: Who has paused this task by its id, with his message: {"source": ..., "source_share": ..., "destination": ...,
    #: "destination_share": ...}; the first of a side is for those who run the host. Rules for all are in PauseRule.
    admin_pauses = models.JSONField(default=dict)
    #: While paused: since when, and the deadline that it had before (progress may not move it, and waiting may).
    paused_at = models.DateTimeField(null=True)
    deadline_before_pause = models.DateTimeField(null=True)

    #: For which end of it a manager has asked for its end, and with what words.
    canceled_by_admin = models.CharField(
        max_length=11, choices=[(word, word) for word in ("SOURCE", "DESTINATION", "BOTH")], null=True
    )
    canceled_by_admin_message = models.TextField(null=True)
    #: Its files and events were forgotten, long after its end.
    history_deleted = models.BooleanField(default=False)

    fatal_error_code = models.CharField(max_length=64, null=True)
    fatal_error_description = models.TextField(null=True)

    #: What it keeps (`space.py`): rows of items and files, octets of their paths; and octets of its events.
    kept_rows = models.BigIntegerField(default=0, db_default=0)
    kept_octets = models.BigIntegerField(default=0, db_default=0)
    event_octets = models.BigIntegerField(default=0, db_default=0)
    #: It is done, and what nobody can see of it any more is deleted (`retention.py`).
    tidied = models.BooleanField(default=False, db_default=False)
    #: The id of the file up to which that is so, while it is under way.
    tidied_up_to = models.BigIntegerField(default=0, db_default=0)

    #: Files with an id up to this may still have a stale writer from a worker that died without a word: they
    #: are sent under a new temporary name and renamed (see endpoints/gridftp/pair.py, and the decision page).
    suspect_up_to = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["owner", "submission_id"], name="task_submission_once"),
            models.CheckConstraint(
                condition=models.Q(status="ACTIVE", phase__in=["queued", "running", "paused"])
                | models.Q(status="INACTIVE", phase="suspended")
                | models.Q(status__in=["SUCCEEDED", "FAILED"], phase="done"),
                name="task_status_and_phase_agree",
            ),
            models.CheckConstraint(
                condition=models.Q(completion_time__isnull=True, phase__in=["queued", "running", "paused", "suspended"])
                | models.Q(completion_time__isnull=False, phase="done"),
                name="task_completion_time_iff_done",
            ),
            models.CheckConstraint(
                condition=models.Q(phase="paused", paused_at__isnull=False, deadline_before_pause__isnull=False)
                | (~models.Q(phase="paused") & models.Q(paused_at__isnull=True, deadline_before_pause__isnull=True)),
                name="task_paused_since_a_time",
            ),
            models.CheckConstraint(
                condition=~models.Q(status="SUCCEEDED")
                | models.Q(files=models.F("files_transferred") + models.F("files_skipped") + models.F("files_failed")),
                name="task_counts_add_up",
            ),
            models.CheckConstraint(
                condition=models.Q(type="TRANSFER", destination__isnull=False)
                | models.Q(type="DELETE", destination__isnull=True),
                name="task_transfer_has_destination",
            ),
            models.CheckConstraint(
                condition=models.Q(status="FAILED", fatal_error_code__isnull=False)
                | (~models.Q(status="FAILED") & models.Q(fatal_error_code__isnull=True)),
                name="task_failed_iff_fatal_error",
            ),
        )
        # Nothing that a worker's batch changes is indexed: PostgreSQL then updates the row in place (HOT).
        indexes = (
            models.Index(fields=["owner", "-request_time", "-id"], name="task_by_owner"),
            # Pages of a list, and how long it is, for a user with a hundred thousand tasks (`queries.list_tasks`).
            models.Index(
                models.F("owner"),
                models.F("completion_time").desc(nulls_last=True),
                models.F("id").desc(),
                name="task_by_completion",
            ),
            models.Index(
                models.F("owner"), models.F("label").asc(nulls_first=True), models.F("id").desc(), name="task_by_label"
            ),
            models.Index(fields=["owner", "status", "type"], name="task_by_status"),
            models.Index(
                fields=["owner", "type", "next_run_at"], condition=~models.Q(phase="done"), name="task_unfinished"
            ),
            models.Index(fields=["source", "next_run_at"], condition=~models.Q(phase="done"), name="task_by_source"),
            models.Index(
                fields=["destination", "next_run_at"], condition=~models.Q(phase="done"), name="task_by_destination"
            ),
            models.Index(
                fields=["source_host", "next_run_at"], condition=~models.Q(phase="done"), name="task_by_source_host"
            ),
            models.Index(
                fields=["destination_host", "next_run_at"],
                condition=~models.Q(phase="done"),
                name="task_by_destination_host",
            ),
            models.Index(fields=["owner", "waits_at"], condition=models.Q(phase="suspended"), name="task_waiting"),
            models.Index(fields=["paused_at"], condition=models.Q(phase="paused"), name="task_paused"),
            models.Index(
                fields=["next_run_at"],
                condition=~models.Q(phase="done") & ~models.Q(admin_pauses={}),
                name="task_paused_by_admin",
            ),
            # What managers of endpoints list: first what is not done (as if it were done in the future), newest first.
            models.Index(fields=["source", "-completion_time", "-request_time", "-id"], name="task_of_source"),
            models.Index(
                fields=["destination", "-completion_time", "-request_time", "-id"],
                condition=models.Q(destination__isnull=False),
                name="task_of_destination",
            ),
            models.Index(
                fields=["completion_time"],
                condition=models.Q(phase="done", history_deleted=False),
                name="task_with_history",
            ),
            models.Index(
                fields=["completion_time"], condition=models.Q(phase="done", tidied=False), name="task_to_be_tidied"
            ),
            # The oldest history of a user, for one who keeps too much.
            models.Index(
                fields=["owner", "completion_time"],
                condition=models.Q(phase="done", history_deleted=False),
                name="task_with_history_by_owner",
            ),
        )

    def save(self, *args: Any, **kwargs: Any) -> None:
        """A new one learns whose servers its endpoints are."""
        if self.source_host_id is None:
            self.source_host_id = self.source.host_id or self.source_id
            self.destination_host_id = (self.destination.host_id or self.destination_id) if self.destination else None
        super().save(*args, **kwargs)


class Item(models.Model):
    """What the user named: one source path (and destination path) of a task."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.IntegerField()
    source_path = PathField()
    destination_path = PathField(null=True)
    #: None: the scan looks whether the source is a folder.
    recursive = models.BooleanField(null=True)
    #: Set when the scan of this item is complete.
    scanned_at = models.DateTimeField(null=True)
    #: The scan's own backoff after a fault.
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    #: What only some items have: external_checksum, checksum_algorithm, symlink (to be made, not followed).
    extra = models.JSONField(default=dict)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["task", "position"], name="item_position_unique"),)
        indexes = (
            models.Index(
                fields=["task", "position"], condition=models.Q(scanned_at__isnull=True), name="item_unscanned"
            ),
        )


class File(models.Model):
    """One thing that must arrive (or be deleted): the unit of settlement (truth 3)."""

    id = models.BigAutoField(primary_key=True)
    #: The task of the item. A worker writes only its own: a constraint would cost half as much per row again.
    task = models.ForeignKey(
        Task, on_delete=models.CASCADE, related_name="task_files", db_index=False, db_constraint=False
    )
    #: No constraint either: to delete an item would then be to look through all files, and items go when a task ends.
    item = models.ForeignKey(Item, on_delete=models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    kind = models.SmallIntegerField(choices=FileKind.choices, default=FileKind.FILE)
    source_path = PathField()
    destination_path = PathField(null=True)
    #: A digest of the destination (of the source for DELETE): makes a repeated scan idempotent and two sources for
    #: one destination impossible. See work.file_key.
    key = models.BinaryField(max_length=16)
    size = models.BigIntegerField(default=0)
    modified = models.DateTimeField(null=True)
    state = models.SmallIntegerField(choices=FileState.choices, default=FileState.PENDING)
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    #: Ranges known to be on the destination's disk, as in RFC-959-style REST of GridFTP: "0-65536,131072-196608".
    ranges = models.TextField(default="")
    #: How many bytes that is; the sum over all files is the task's bytes_transferred.
    bytes_done = models.BigIntegerField(default=0)
    #: Name it is being written under, when that is not the destination path itself.
    temporary_path = PathField(null=True)
    #: The last fault; None once the file is settled. It stays with a file that the task's end left pending.
    error_code = models.CharField(max_length=64, null=True)
    error_details = models.TextField(null=True)
    error_time = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    #: Of a symlink that is kept: what it leads to, as the source has it.
    link_target = PathField(null=True)
    #: While pending, what the user says the content has; once settled, what both sides agreed on. Hexadecimal.
    checksum_algorithm = models.CharField(max_length=16, null=True)
    checksum = models.CharField(max_length=128, null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["task", "key"], name="file_once_per_task"),
            models.CheckConstraint(condition=models.Q(key__length=16), name="file_key_is_blake2b_128"),
            models.CheckConstraint(condition=models.Q(size__gte=0, bytes_done__gte=0), name="file_sizes_positive"),
            models.CheckConstraint(
                condition=models.Q(state=0, settled_at__isnull=True) | models.Q(state__gt=0, settled_at__isnull=False),
                name="file_settled_at_iff_settled",
            ),
            models.CheckConstraint(
                condition=~models.Q(state=3) | models.Q(error_code__isnull=False), name="file_failed_says_why"
            ),
        )
        indexes = (
            models.Index(fields=["task", "id"], name="file_by_task"),
            models.Index(
                fields=["task", "size", "id"],
                condition=models.Q(state=0, next_try_at__isnull=True),
                name="file_pending",
            ),
            models.Index(
                fields=["task", "next_try_at"],
                condition=models.Q(state=0, next_try_at__isnull=False),
                name="file_in_backoff",
            ),
            models.Index(fields=["task", "id"], condition=models.Q(error_code__isnull=False), name="file_with_error"),
        )


class Space(models.Model):
    """What one user keeps in these tables, in all his tasks; written by `space.py` in the transaction of the change."""

    owner = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    tasks = models.BigIntegerField(default=0)
    rows = models.BigIntegerField(default=0)
    octets = models.BigIntegerField(default=0)


class Event(models.Model):
    """A dated line of a task's history; appended in the transaction of the change that it tells."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="events", db_index=False)
    time = models.DateTimeField()
    code = models.CharField(max_length=64)
    is_error = models.BooleanField(default=False)
    description = models.TextField()
    #: Text; JSON text for STARTED, PROGRESS and SUCCEEDED, as the Transfer API has it.
    details = models.TextField()
    #: Ids are given out in another order than transactions end in; readers that go on where they were need this one.
    written_by = TransactionIdField(
        db_default=models.Func(function="pg_current_xact_id", output_field=models.TextField()), editable=False
    )

    class Meta:
        indexes = (
            models.Index(fields=["task", "-id"], name="event_by_task"),
            models.Index(fields=["written_by"], name="event_by_transaction"),
        )


class Lease(models.Model):
    """Who works on a task. A write by a worker names its epoch, so one that lost its lease writes nothing."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    #: Grows by one with every taking; never reused.
    epoch = models.BigIntegerField(default=0)
    #: Empty when nobody holds it.
    worker = models.CharField(max_length=128, blank=True)
    expires_at = models.DateTimeField(null=True)
    #: Sessions to each of its endpoints that the holder may have (the fair share).
    sessions = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(worker="", expires_at__isnull=True)
                | (~models.Q(worker="") & models.Q(expires_at__isnull=False, sessions__gte=1)),
                name="lease_held_until_a_time",
            ),
        )
        # A heartbeat changes nothing of it, and it is as small as the number of workers.
        indexes = (models.Index(fields=["task"], condition=~models.Q(worker=""), name="lease_held"),)


class PathMemory(models.Model):
    """What the tuner knows of the way from one endpoint to another; the words are the engine's."""

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    destination = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    knowledge = models.JSONField(default=dict)
    updated_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["source", "destination"], name="path_memory_of_a_pair"),)


class Run(models.Model):
    """What one slice of a task moved, and with what plan: the history that forecasts are made from."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="runs")
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    destination = models.ForeignKey("endpoints.Endpoint", on_delete=models.CASCADE, related_name="+", db_index=False)
    ended_at = models.DateTimeField()
    #: Of the slice, from taking the lease to its last word.
    seconds = models.FloatField()
    files = models.BigIntegerField()
    bytes = models.BigIntegerField()
    faults = models.BigIntegerField(default=0)
    #: Seconds, between this service and the endpoints, as measured; None when nobody did.
    round_trip = models.FloatField(null=True)
    concurrency = models.IntegerField()
    parallelism = models.IntegerField()
    pipelining = models.IntegerField()
    #: Whether this slice both began and finished the task: only then its seconds are those of a whole task.
    whole = models.BooleanField(default=False)

    class Meta:
        indexes = (models.Index(fields=["source", "destination", "-ended_at"], name="run_of_a_pair"),)


class Mail(models.Model):
    """A mail to a user: written in the transaction of the change that it tells, then sent by `postman.py`."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    task = models.ForeignKey(Task, on_delete=models.SET_NULL, related_name="+", null=True, db_index=False)
    #: What is told: nothing is told twice.
    key = models.CharField(max_length=200, unique=True)
    subject = models.CharField(max_length=250)
    body = models.TextField()
    created_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    #: None: it was sent, or given up.
    next_try_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(fields=["next_try_at"], condition=models.Q(next_try_at__isnull=False), name="mail_to_be_sent"),
        )


class AdminCancel(models.Model):
    """What a manager of endpoints has asked for: the end of these tasks (Transfer API, `admin_cancel`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.TextField()
    #: Ids of tasks, as text.
    task_ids = models.JSONField()
    created_at = models.DateTimeField(db_index=True)


class Webhook(models.Model):
    """An address that a user wants told of what becomes of his tasks. Its secret lies sealed in the vault's way."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=2048)
    #: States of tasks that it is told of (SUCCEEDED, FAILED, INACTIVE, ACTIVE).
    statuses = models.JSONField(default=list)
    key_id = models.CharField(max_length=16)
    sealed_secret = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)
    #: Set when it has not answered for too long: nothing more is sent.
    disabled_at = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True)
    #: Tries in a row that failed, and since when; nothing is sent before its pause is over.
    failures = models.IntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)


class Delivery(models.Model):
    """One word to a webhook: written in the transaction of the change, sent until it is taken or too old."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    #: None: it was sent to try the webhook.
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+", db_index=False, null=True)
    body = models.JSONField()
    made_at = models.DateTimeField()
    attempts = models.IntegerField(default=0)
    #: None: it was taken, or is given up.
    next_try_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    #: What the receiver answered to the last try, and what was wrong with that.
    last_status = models.IntegerField(null=True)
    last_error = models.CharField(max_length=300, blank=True)

    class Meta:
        indexes = (
            models.Index(fields=["next_try_at"], condition=models.Q(next_try_at__isnull=False), name="delivery_due"),
            models.Index(fields=["webhook", "-made_at"], name="delivery_of_webhook"),
            models.Index(fields=["made_at"], name="delivery_by_age"),
        )


class RemovedTask(models.Model):
    """A task that is done and that its owner does not want to see any more."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="removal")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")


class Round(models.Model):
    """When a round of the workers is due next: see `rounds`."""

    name = models.CharField(max_length=32, primary_key=True)
    next_at = models.DateTimeField()
