"""Transfer tasks, and their owners' and managers' requests to remove or end them."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models

from endpoints.models import Endpoint
from transferapi.tasks.states import Phase, Status, TaskType

if TYPE_CHECKING:
    from .files import Item

#: For `select_related`: the endpoints of a task with their owners; these, and the owner of the task.
WITH_ENDS = ("source__owner", "destination__owner")
WITH_OWNERS = ("owner", *WITH_ENDS)


class Task(models.Model):
    """A request of a user: TRANSFER or DELETE."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    type = models.CharField(max_length=8, choices=TaskType.choices)
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.ACTIVE)
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.QUEUED)
    submission_id = models.UUIDField()
    label = models.CharField(max_length=128, null=True)
    #: The command of the shell that submitted it, for people; "" where another interface did.
    command = models.TextField(default="", db_default="")
    #: DELETE tasks have only a source: the endpoint they delete on.
    source = models.ForeignKey("endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", db_index=False)
    destination = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    #: The endpoints that have the servers: the endpoints themselves, or the hosts of shared ones. Set at creation.
    source_host = models.ForeignKey("endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", db_index=False)
    destination_host = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    #: The options of the submission by their wire names, validated and complete (defaults filled in).
    options = models.JSONField(default=dict)

    request_time = models.DateTimeField()
    deadline = models.DateTimeField()
    #: Set where the user has chosen the deadline: then progress does not move it.
    deadline_is_fixed = models.BooleanField(default=False)
    completion_time = models.DateTimeField(null=True)
    last_progress_at = models.DateTimeField(null=True)
    #: The time from which a queued task may run (end of its backoff); queued tasks get their turn in this order.
    next_run_at = models.DateTimeField()
    cancel_requested_at = models.DateTimeField(null=True)
    #: Consecutive failures to reach an endpoint, as the last slice left it.
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
    #: The highest value of `bytes_transferred`, which falls when a file is sent again from its start.
    bytes_kept = models.BigIntegerField(default=0, db_default=0)
    bytes_checksummed = models.BigIntegerField(default=0)
    faults = models.BigIntegerField(default=0)
    #: The part of files_skipped that could not be read (option skip_source_errors).
    skipped_errors = models.BigIntegerField(default=0)

    #: With the option store_base_path_info: the deepest folders that contain all items.
    source_base_path = models.TextField(null=True)
    destination_base_path = models.TextField(null=True)

    nice_status = models.CharField(max_length=64, null=True)
    nice_status_details = models.TextField(null=True)
    #: The last fault of an endpoint, the time of the next attempt, and recent causes (`troubles.py`).
    trouble = models.JSONField(null=True)
    #: The weakest protection that data channels of this task had (`records.LEVELS`).
    data_protection = models.CharField(max_length=16, null=True)
    #: The way of its data where an agent has a part in it (`records.WAYS`); None: between two servers.
    data_way = models.CharField(max_length=16, null=True)
    #: Octets a second that the slice of this moment may move; None: nothing limits it. Out of date where none runs.
    present_bandwidth_limit = models.BigIntegerField(null=True)
    #: While suspended: since when, the endpoint whose credential is missing, and when the credential was stored that
    #: the task had (None if it had none). A credential with any other time lets the task continue.
    suspended_at = models.DateTimeField(null=True)
    waits_at = models.ForeignKey(
        "endpoints.Endpoint", on_delete=models.PROTECT, related_name="+", null=True, db_index=False
    )
    had_credential = models.DateTimeField(null=True)

    #: Pauses of this task by its id, with their messages: {"source": ..., "source_share": ..., "destination": ...,
    #: "destination_share": ..., "owner": "", "operator": ...}; without "_share" for managers of the host. Rules:
    #: PauseRule.
    admin_pauses = models.JSONField(default=dict)
    #: While paused: since when, and the deadline that the task had before.
    paused_at = models.DateTimeField(null=True)
    deadline_before_pause = models.DateTimeField(null=True)

    #: The endpoint whose manager has canceled the task, and the message; a message alone is of the operator.
    canceled_by_admin = models.CharField(
        max_length=11, choices=[(word, word) for word in ("SOURCE", "DESTINATION", "BOTH")], null=True
    )
    canceled_by_admin_message = models.TextField(null=True)
    #: Its files and events were deleted, long after its end.
    history_deleted = models.BooleanField(default=False)

    fatal_error_code = models.CharField(max_length=64, null=True)
    fatal_error_description = models.TextField(null=True)

    #: Its space (`space.py`): rows of items and files, octets of their paths, and octets of its events.
    kept_rows = models.BigIntegerField(default=0, db_default=0)
    kept_octets = models.BigIntegerField(default=0, db_default=0)
    event_octets = models.BigIntegerField(default=0, db_default=0)
    #: The task is done, and its rows that no user can see any more are deleted (`retention.py`).
    tidied = models.BooleanField(default=False, db_default=False)
    #: While that is in progress: the id of the last file that was examined.
    tidied_up_to = models.BigIntegerField(default=0, db_default=0)

    #: A lost worker may still write files with an id up to this: they are sent under a new temporary name and renamed
    #: (endpoints/gridftp/third_party/pair.py, docs/decisions/settlement.md).
    suspect_up_to = models.BigIntegerField(default=0)
    #: The marks of leases whose workers were lost (`records.TaskSpec.lost_marks`), with spaces between them.
    lost_marks = models.TextField(default="", db_default="")

    #: The span that submitted it (`traceparent`, W3C Trace Context); None if it has no trace (`tasks.task_spans`).
    trace_context = models.CharField(max_length=55, null=True)

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
        # No column that a worker's batch changes is indexed, so that PostgreSQL updates the row in place (HOT).
        indexes = (
            models.Index(fields=["owner", "-request_time", "-id"], name="task_by_owner"),
            # Pages and length of a list, for a user with 100,000 tasks (`queries.list_tasks`).
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
            # Lists for managers of endpoints: unfinished tasks first, newest first.
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
            # For the deletion of completed tasks, the oldest first (`old_records.py`).
            models.Index(
                fields=["completion_time"],
                condition=models.Q(phase="done", history_deleted=True),
                name="task_without_history",
            ),
            # For the deletion of endpoints: PostgreSQL looks for the tasks that refer to one.
            models.Index(fields=["source_host"], name="task_by_any_source_host"),
            models.Index(
                fields=["destination_host"],
                condition=models.Q(destination_host__isnull=False),
                name="task_by_any_destination_host",
            ),
            models.Index(fields=["waits_at"], condition=models.Q(waits_at__isnull=False), name="task_waiting_at"),
            # The oldest history of a user whose tasks take too much space.
            models.Index(
                fields=["owner", "completion_time"],
                condition=models.Q(phase="done", history_deleted=False),
                name="task_with_history_by_owner",
            ),
        )

    @property
    def ends(self) -> dict[str, Endpoint]:
        """The endpoints by their sides, "source" and "destination"; a DELETE task has the first only."""
        found = {"source": self.source}
        if self.destination is not None:
            found["destination"] = self.destination
        return found

    @property
    def files_left(self) -> int:
        """The files that were found and have not ended yet."""
        return self.files - self.files_transferred - self.files_skipped - self.files_failed

    @property
    def is_scanning(self) -> bool:
        """Whether the scan is not complete: it may find more files."""
        return self.items_scanned < self.items_total

    @cached_property
    def first_item(self) -> Item | None:
        """The first item of the request; None where the items are deleted. `names.read` reads those of many tasks."""
        return self.items.filter(position=0).first()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save it; a new task gets the hosts of its endpoints."""
        if self.source_host_id is None:
            self.source_host_id = self.source.host_id or self.source_id
            self.destination_host_id = (self.destination.host_id or self.destination_id) if self.destination else None
        super().save(*args, **kwargs)


class RemovedTask(models.Model):
    """A completed task that its owner has removed from the lists."""

    task = models.OneToOneField(Task, on_delete=models.CASCADE, primary_key=True, related_name="removal")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")


class AdminCancel(models.Model):
    """A manager's request to cancel tasks (Transfer API, `admin_cancel`)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.TextField()
    #: Ids of tasks, as text.
    task_ids = models.JSONField()
    created_at = models.DateTimeField(db_index=True)
