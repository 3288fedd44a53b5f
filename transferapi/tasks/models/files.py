"""Items and files of tasks, and the rows that a user keeps."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from transferapi.tasks.states import FileKind, FileState

from .fields import PathField
from .task import Task


class Item(models.Model):
    """An item of a task: one source path, and in transfers one destination path."""

    id = models.BigAutoField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.IntegerField()
    source_path = PathField()
    destination_path = PathField(null=True)
    #: None: the scan finds out whether the source is a folder.
    recursive = models.BooleanField(null=True)
    #: Set when the scan of this item is complete.
    scanned_at = models.DateTimeField(null=True)
    #: The backoff of the scan after a fault.
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    #: Options of some items: external_checksum, checksum_algorithm, symlink (to be created, not followed).
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
    #: The task of the item. A worker writes only files of its own task; a constraint would cost half as much again.
    task = models.ForeignKey(
        Task, on_delete=models.CASCADE, related_name="task_files", db_index=False, db_constraint=False
    )
    #: No constraint: deleting an item would search all files, and items are deleted when a task ends.
    item = models.ForeignKey(Item, on_delete=models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    kind = models.SmallIntegerField(choices=FileKind.choices, default=FileKind.FILE)
    source_path = PathField()
    destination_path = PathField(null=True)
    #: A digest of the destination (of the source for DELETE): makes a repeated scan idempotent and two sources for
    #: one destination impossible. See `scan_results.file_key`.
    key = models.BinaryField(max_length=16)
    size = models.BigIntegerField(default=0)
    modified = models.DateTimeField(null=True)
    state = models.SmallIntegerField(choices=FileState.choices, default=FileState.PENDING)
    attempts = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    #: Ranges known to be on the destination's disk, as in RFC-959-style REST of GridFTP: "0-65536,131072-196608".
    ranges = models.TextField(default="")
    #: The bytes of these ranges; the sum over all files is the task's bytes_transferred.
    bytes_done = models.BigIntegerField(default=0)
    #: The name under which the file is written, where that is not the destination path.
    temporary_path = PathField(null=True)
    #: The destination had no entry of this name when the scan looked (`FileRow.absent`).
    absent = models.BooleanField(default=False, db_default=False)
    #: The last fault; None once the file has arrived. A file that is pending at the end of the task keeps it.
    error_code = models.CharField(max_length=64, null=True)
    error_details = models.TextField(null=True)
    error_time = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    #: The target at the source of a symlink that is created at the destination; None for other files.
    link_target = PathField(null=True)
    #: Hexadecimal. While pending, the checksum that the user expects; then the one that both sides agree on.
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
    """The rows and octets of all tasks of one user; `space.py` writes it in the transaction of the change."""

    owner = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    tasks = models.BigIntegerField(default=0)
    rows = models.BigIntegerField(default=0)
    octets = models.BigIntegerField(default=0)
