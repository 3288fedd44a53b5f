"""Records that the tasks' database code (`worker/`) and the transfer engine (`workers.engine`) share.

Pure: no Django, no ORM. A path is a `str` decoded with surrogateescape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from endpoints.gridftp.faults import Fault, Side

#: Values of `kind` of a file (`states.FileKind`).
FILE, DIRECTORY, SYMLINK = 0, 1, 2

#: Values of `DataProtection.level`, the weakest first.
LEVELS = CLEAR, AUTHENTICATED, ENCRYPTED = ("clear", "authenticated", "encrypted")


#: Values of `DataWay.way`: between the two endpoints; through this service, which cannot read them; or through one of
#: its workers, which reads and writes the files itself.
WAYS = DIRECT, RELAYED, STREAMED = ("direct", "relayed", "streamed")


#: The option of a task that holds its owner's answer about extra files (`confirm_deletion_above`), and its values.
ANSWER, CONFIRMED, REFUSED = "extra_deletion", "confirmed", "refused"


#: The value of the option `priority` of a task that gives way to the others at its endpoints.
BACKGROUND = "background"


class Checksum(NamedTuple):
    """algorithm: as FEAT lists it ("MD5", "SHA256"). value: hexadecimal in lower case; "" where it is not known."""

    algorithm: str
    value: str


# ---- the task


@dataclass(frozen=True, slots=True)
class TaskEndpoint:
    """An endpoint of a task, and the load that one task may put on its servers."""

    id: str
    name: str
    #: The destination cannot take out-of-order data: mode S, only concurrency.
    stream_only: bool = False
    #: A computer with an agent: it connects to servers, and nothing connects to it.
    personal: bool = False
    #: A worker moves its files itself, each in one stream (SFTP).
    streamed: bool = False
    #: Limits and preferences that the endpoint's administrator has set for one task. None: not set.
    max_concurrency: int | None = None
    preferred_concurrency: int | None = None
    max_parallelism: int | None = None
    preferred_parallelism: int | None = None
    #: For a shared endpoint: the id of its host, and the host's folder that its paths are relative to.
    host_id: str | None = None
    root: str | None = None

    @property
    def host(self) -> str:
        """The id of the endpoint that has the servers."""
        return self.host_id or self.id


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The facts of a task that do not change while a worker holds it."""

    task_id: str
    is_delete: bool
    source: TaskEndpoint
    destination: TaskEndpoint | None
    #: The options of the task by wire name: perf_cc, perf_p, perf_pp, recursive, ignore_missing, interpret_globs ...
    options: dict[str, object]
    #: Control connections to each endpoint that this slice may hold (at least 3).
    max_sessions: int
    #: A lost worker may still write files with an id up to this: send them under a new name of their own.
    suspect_up_to: int = 0
    #: The mark of this lease in the names of its files, hexadecimal: drawn at random for each lease
    #: (docs/decisions/settlement.md).
    mark: str = ""
    #: The marks of leases whose workers were lost: their files may still lie at the destination.
    lost_marks: Sequence[str] = ()
    #: An earlier slice has written the STARTED event: this one writes its plans as PROGRESS.
    started: bool = False
    #: How often in a row an endpoint could not be reached, as the last `TaskStore.release` left it.
    connection_failures: int = 0
    #: The tuner's knowledge of this pair of endpoints, from earlier tasks (`TaskStore.learn`).
    knowledge: Mapping[str, object] = field(default_factory=dict)
    #: The status of the task shows a fault.
    troubled: bool = False
    #: Octets a second that the relay passes on for small files to an agent; 0: no limit; None if it takes none.
    relay_rate: int | None = None
    #: Codes of the once-only events that this task already has.
    warned: frozenset[str] = frozenset()

    @property
    def renames_all(self) -> bool:
        """Whether each file gets a name that nobody can know, and its entry is replaced by a plain rename.

        On a shared endpoint, any name may be a symlink. Some servers check only the link's target beforehand, so that
        opening a dangling link creates a file outside of the share. A new random name cannot be such a link, and a
        rename replaces the link itself.
        """
        return self.destination is not None and self.destination.root is not None

    @property
    def check_sessions(self) -> int:
        """Sessions of max_sessions that only compute checksums: two where enough are left to move files, else one."""
        if not (self.options.get("verify_checksum") or self.options.get("external_checksum")):
            return 0
        return 2 if self.max_sessions >= 5 else 1

    @property
    def most_lanes(self) -> int:
        """The largest number of lanes: one session to each endpoint is kept for the scan, and some for checksums."""
        compare_sessions = int(self.options.get("sync_level") == 3)
        return max(1, self.max_sessions - 1 - self.check_sessions - compare_sessions)


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The answer to a heartbeat."""

    cancel_requested: bool
    deadline: datetime
    #: A manager of an endpoint has paused the task: the worker must release it, and the store keeps it from running.
    pause_requested: bool = False
    #: The database's time of this heartbeat, which corrects the worker's clock; None: a store without a database.
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The work that a task has left. next_try_at: the earliest retry among its pending files and unscanned items."""

    items_unscanned: int
    #: Exact up to `worker.pending_files.PENDING_COUNTED`.
    files_pending: int
    files_failed: int
    next_try_at: datetime | None
    #: Files and folders that were skipped because they could not be read.
    skipped_errors: int = 0


@dataclass(frozen=True, slots=True)
class SliceMeasurement:
    """The work of one slice, for forecasts (`models.Run`).

    round_trip: seconds between this service and the farther endpoint. whole: this slice both began and finished the
    task.
    """

    seconds: float
    files: int
    bytes: int
    faults: int
    round_trip: float | None
    concurrency: int
    parallelism: int
    pipelining: int
    whole: bool


@dataclass(frozen=True, slots=True)
class DataProtection:
    """The protection of a lane's data channels. level: one of LEVELS.

    The other fields are for CLEAR: the side that prevents protection, why (in words that follow "the server"), a
    remedy, and the server's reply.
    """

    level: str
    side: Side = Side.UNKNOWN
    why: str = ""
    remedy: str = ""
    raw: str = ""


class DataWay(NamedTuple):
    """The way of a lane's data. way: one of WAYS. why: a sentence for the user."""

    way: str
    why: str


# ---- its items and files


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item of the task, as the user named it."""

    id: int
    source_path: str
    destination_path: str | None
    #: None: the scan finds out whether the source is a folder.
    recursive: bool | None
    attempts: int
    #: The checksum that the user expects of the file's content.
    checksum: Checksum | None = None
    #: The source is a symlink, to be created anew at the destination and not followed.
    symlink: bool = False

    @property
    def target(self) -> str:
        """The path that the task changes: the destination's, or the source's where it deletes."""
        return self.source_path if self.destination_path is None else self.destination_path


class FoundFile(NamedTuple):
    """Something that the scan found, to become a file row. A DIRECTORY occurs only where the task deletes."""

    source_path: str
    destination_path: str | None
    size: int
    modified: datetime | None
    kind: int = FILE
    #: The destination already has it (sync): counted as skipped, never pending.
    skipped: bool = False
    #: The target of a symlink that is to be created at the destination; None for other files.
    link_target: str | None = None
    checksum: Checksum | None = None
    #: Bytes that were read to compare it with the destination.
    checksummed: int = 0
    #: The destination has no entry of this name, as the scan saw it.
    absent: bool = False

    @property
    def target(self) -> str:
        """The path that the task changes: the destination's, or the source's where it deletes."""
        return self.source_path if self.destination_path is None else self.destination_path


class FileRow(NamedTuple):
    """A pending file. ranges: the ranges known to be on the destination's disk, in the syntax of REST."""

    id: int
    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    kind: int = FILE
    attempts: int = 0
    ranges: str = ""
    temporary_path: str | None = None
    #: A stale writer may still be writing under the destination's name: use a temporary one.
    suspect: bool = False
    #: The source's modification time, as the scan saw it.
    modified: datetime | None = None
    link_target: str | None = None
    #: The checksum that the user expects; with an empty value, only the algorithm to compare both sides with.
    checksum: Checksum | None = None
    #: This task has left an incomplete copy under the destination's own name.
    begun: bool = False
    #: The destination had no entry of this name when the scan looked. False if it had one, or nobody has looked.
    absent: bool = False
    #: The kind of its latest fault; "" for none.
    last_fault: str = ""

    def under(self, temporary_path: str | None) -> FileRow:
        """The same file with this temporary path. For each file: `_replace` takes longer."""
        return FileRow(
            self.id,
            self.item_id,
            self.source_path,
            self.destination_path,
            self.size,
            self.kind,
            self.attempts,
            self.ranges,
            temporary_path,
            self.suspect,
            self.modified,
            self.link_target,
            self.checksum,
            self.begun,
            self.absent,
            self.last_fault,
        )


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """Something that the scan skips because it cannot be read and the user asked for that (skip_source_errors)."""

    source_path: str
    destination_path: str | None
    kind: int
    fault: Fault


# ---- outcomes


class SettledFile(NamedTuple):
    """A file that is certain to have arrived, or to be in place. bytes: moved now, without those of earlier tries."""

    file: FileRow
    bytes: int
    skipped: bool = False
    #: The size that arrived and that the source now has, where it differs from the scan's.
    new_size: int | None = None
    #: The checksum that both sides agree on, and the bytes that were read for it.
    checksum: Checksum | None = None
    checksummed: int = 0


@dataclass(frozen=True, slots=True)
class FaultedFile:
    """A file that met a fault. retry_at: None if it has failed, or is skipped as the user asked."""

    file: FileRow
    fault: Fault
    retry_at: datetime | None
    #: The ranges that are on the destination's disk; "" to begin from the start.
    ranges: str = ""
    #: The source's present size, where it differs from the scan's.
    new_size: int | None = None
    skipped: bool = False
    #: Bytes that were read for checksums that did not agree.
    checksummed: int = 0

    @property
    def path(self) -> str:
        """The path at the side of the fault."""
        destination = self.file.destination_path if self.fault.side is Side.DESTINATION else None
        return destination or self.file.source_path


@dataclass(frozen=True, slots=True)
class FaultedItem:
    """An item whose scan met a fault. retry_at: None if it counts as one file that has failed, or is skipped."""

    item: ItemRow
    fault: Fault
    retry_at: datetime | None
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class PartialFile:
    """Bytes of a file that are on the destination's disk, from its range markers."""

    file: FileRow
    ranges: str
    bytes: int


@dataclass(slots=True)
class Settlement:
    """Outcomes that are written in one transaction."""

    settled: list[SettledFile] = field(default_factory=list)
    faulted: list[FaultedFile] = field(default_factory=list)
    progress: list[PartialFile] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.settled or self.faulted or self.progress)
