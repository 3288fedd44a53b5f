"""Rows as they travel between a worker and the database, free of the ORM. Paths are surrogateescape `str`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class ItemFacts(NamedTuple):
    """An item whose scan is not complete."""

    id: int
    source_path: str
    destination_path: str | None
    recursive: bool | None
    attempts: int
    #: external_checksum, checksum_algorithm, symlink: where the item has them.
    extra: dict[str, object]


class NewFile(NamedTuple):
    """What the scan of an item found. kind: states.FileKind."""

    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    modified: datetime | None
    kind: int
    #: Nothing is to be done for it: it is in place already.
    skipped: bool = False
    link_target: str | None = None
    checksum_algorithm: str | None = None
    checksum: str | None = None
    #: Octets that were read to compare it with what is at the destination.
    checksummed: int = 0


class FileFacts(NamedTuple):
    """A pending file."""

    id: int
    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    kind: int
    attempts: int
    ranges: str
    temporary_path: str | None
    modified: datetime | None
    link_target: str | None
    checksum_algorithm: str | None
    checksum: str | None


class Trouble(NamedTuple):
    """A fault, as the history tells it. side: "source", "destination" or "unknown"; raw: the server's own words.

    server: its host and port, where they are known and for the user to know.
    """

    code: str
    side: str
    advice: str
    raw: str
    server: str = ""


class ProtectionFacts(NamedTuple):
    """How the data channels of a lane are protected. level: clear, authenticated or encrypted.

    Of clear ones: at which side what is in the way, in words, what helps, and what the server said.
    """

    level: str
    side: str = "unknown"
    why: str = ""
    remedy: str = ""
    raw: str = ""


class SettledFile(NamedTuple):
    """new_size: what arrived, when that is not what the scan saw.

    checksum: what both sides agreed on, hexadecimal. checksummed: octets that checksums were made of.
    """

    id: int
    skipped: bool
    new_size: int | None
    checksum_algorithm: str | None = None
    checksum: str | None = None
    checksummed: int = 0


class FaultedFile(NamedTuple):
    """retry_at None: it is given up, or passed over where `skipped`. bytes_done: how much `ranges` says is on disk."""

    id: int
    path: str
    trouble: Trouble
    retry_at: datetime | None
    ranges: str
    bytes_done: int
    new_size: int | None
    skipped: bool = False
    #: Octets that checksums were made of, in vain.
    checksummed: int = 0


class MovedBytes(NamedTuple):
    """What of a file is on the destination's disk by now."""

    id: int
    ranges: str
    bytes_done: int


class FaultedItem(NamedTuple):
    """retry_at None: its scan is given up, and it counts as one file that failed, or was passed over (skipped)."""

    item: ItemFacts
    trouble: Trouble
    retry_at: datetime | None
    skipped: bool = False


class MissedFile(NamedTuple):
    """What the scan of an item passes over, as the user asked. kind: states.FileKind."""

    item_id: int
    source_path: str
    destination_path: str | None
    kind: int
    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Settlement:
    """All that is written in one transaction."""

    settled: Sequence[SettledFile] = ()
    faulted: Sequence[FaultedFile] = ()
    moved: Sequence[MovedBytes] = ()


class Tally(NamedTuple):
    """Where a task stands. files_pending is exact up to work.PENDING_COUNTED."""

    items_unscanned: int
    files_pending: int
    files_failed: int
    next_try_at: datetime | None
    skipped_errors: int


class RunFacts(NamedTuple):
    """What one slice moved; see models.Run."""

    seconds: float
    files: int
    bytes: int
    faults: int
    round_trip: float | None
    concurrency: int
    parallelism: int
    pipelining: int
    whole: bool
