"""Submit a transfer or a delete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from identity.models import User

from .models import Task


@dataclass(frozen=True, slots=True)
class TransferItem:
    """recursive None: the scan looks whether the source is a folder."""

    source_path: str
    destination_path: str
    recursive: bool | None = None
    external_checksum: str | None = None
    checksum_algorithm: str | None = None


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """A transfer as the user asked for it. Endpoints by UUID, `user#name` or bare own name.

    options: by wire name (sync_level, verify_checksum, perf_cc, notify_on_failed ...); absent or None means the
    default; see OPTIONS in this module for those that are known. Types are checked here too (RequestError).
    """

    submission_id: uuid.UUID
    source_endpoint: str
    destination_endpoint: str
    items: Sequence[TransferItem]
    label: str | None = None
    #: Aware. None: 24 hours, moved on by progress.
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A delete as the user asked for it. options: recursive, ignore_missing, interpret_globs, notify_on_*."""

    submission_id: uuid.UUID
    endpoint: str
    paths: Sequence[str]
    label: str | None = None
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)


def submit_transfer(user: User, request: TransferRequest) -> tuple[Task, bool]:
    """The task, and whether it was made now (False: this submission_id has been used by this user before).

    -> RequestError, TooManyPendingError, EndpointNotFoundError, NotPermittedError
    """
    raise NotImplementedError


def submit_delete(user: User, request: DeleteRequest) -> tuple[Task, bool]:
    """As `submit_transfer`."""
    raise NotImplementedError
