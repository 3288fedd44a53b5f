"""What the engine needs from the world: four ports, each with an in-memory fake in `fakes.py`.

The engine never sees Django, a socket or a clock of its own. Paths are `str` decoded with surrogateescape.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, Side

#: Kinds of `Found` and of rows.
FILE, DIRECTORY, SYMLINK = 0, 1, 2


class LeaseLostError(Exception):
    """Somebody else holds the task now: stop at once and write nothing more."""


class TooMuchError(Exception):
    """The task sees, or keeps, more than a task may: it fails. `reason` names the limit and its setting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Checksum(NamedTuple):
    """algorithm: as FEAT has it ("MD5", "SHA256" ...). value: hexadecimal, lower case, or "" where none is known."""

    algorithm: str
    value: str


@dataclass(frozen=True, slots=True)
class EndpointRef:
    """An endpoint as the engine sees it: a name for messages, and what may be asked of it."""

    id: str
    name: str
    #: The destination cannot take out-of-order data (personal agents): mode S, only concurrency.
    stream_only: bool = False
    #: What its administrator allows one task, and would like it to begin with. None: no word about it.
    max_concurrency: int | None = None
    preferred_concurrency: int | None = None
    max_parallelism: int | None = None
    preferred_parallelism: int | None = None
    #: Of a shared endpoint: the id of its host, and what stands before its paths there.
    host_id: str | None = None
    root: str | None = None

    @property
    def host(self) -> str:
        """Whose servers these are."""
        return self.host_id or self.id


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The facts of a task that do not change while a worker holds it."""

    task_id: str
    is_delete: bool
    source: EndpointRef
    destination: EndpointRef | None
    #: By wire name: perf_cc, perf_p, perf_pp, recursive, ignore_missing, interpret_globs ...
    options: dict[str, object]
    #: Control connections to each endpoint that this slice may hold (at least 3).
    max_sessions: int
    #: Files with an id up to this may have a stale writer: send under a temporary name.
    suspect_up_to: int = 0
    #: An earlier slice has told STARTED: the plans of this one are PROGRESS.
    started: bool = False
    #: How often in a row an endpoint could not be reached, as the last `release` left it.
    connection_failures: int = 0
    #: What earlier tasks learned of the way between these endpoints (`TaskStore.learn`).
    knowledge: Mapping[str, object] = field(default_factory=dict)
    #: Something is wrong with it, as far as its status shows.
    troubled: bool = False
    #: Codes of warnings that a task gives once, and that this one has given.
    warned: frozenset[str] = frozenset()

    @property
    def writes_aside(self) -> bool:
        """Whether files are written under temporary names from the first try on.

        On a shared endpoint a symlink may stand under any name; to open one that leads nowhere makes a file where it
        leads to, on servers that look beforehand only. Nobody knows a new name, and a rename replaces the link itself.
        """
        return self.destination is not None and self.destination.root is not None

    @property
    def check_sessions(self) -> int:
        """Of max_sessions: those that only make checksums. A second one where enough are left to move files."""
        if not (self.options.get("verify_checksum") or self.options.get("external_checksum")):
            return 0
        return 2 if self.max_sessions >= 5 else 1

    @property
    def most_lanes(self) -> int:
        """Lanes that there may be: one session to each endpoint is kept for looking around, some for checksums."""
        compare_sessions = int(self.options.get("sync_level") == 3)
        return max(1, self.max_sessions - 1 - self.check_sessions - compare_sessions)


@dataclass(frozen=True, slots=True)
class ItemRow:
    id: int
    source_path: str
    destination_path: str | None
    recursive: bool | None
    attempts: int
    #: What the user says the file's content has.
    checksum: Checksum | None = None
    #: The source is a symlink, to be made anew at the destination and not followed.
    symlink: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A thing the scan found, to become a file row. kind: 0 file, 1 directory (DELETE only), 2 symlink."""

    source_path: str
    destination_path: str | None
    size: int
    modified: datetime | None
    kind: int = 0
    #: It is in place already (sync): counted as skipped, never pending.
    skipped: bool = False
    #: Of a symlink that is to be made at the destination: what it leads to.
    link_target: str | None = None
    checksum: Checksum | None = None
    #: Octets that were read to compare it with what is at the destination.
    checksummed: int = 0


@dataclass(frozen=True, slots=True)
class FileRow:
    """A pending file. `ranges` is what is known to be on the destination's disk, as REST takes it."""

    id: int
    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    kind: int = 0
    attempts: int = 0
    ranges: str = ""
    temporary_path: str | None = None
    #: Something may still be writing under the destination's name: use a temporary one.
    suspect: bool = False
    #: The source's, as the scan saw it.
    modified: datetime | None = None
    link_target: str | None = None
    #: What the content must have, by the user's word, or only the algorithm to compare both sides with.
    checksum: Checksum | None = None
    #: Something that is no whole copy lies under its own name at the destination, and this task has written it.
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """This file is certain (truth 3). `bytes` were moved now (less than size when a restart continued)."""

    file: FileRow
    bytes: int
    skipped: bool = False
    #: The size that arrived and that the source has by now, when the scan saw another.
    new_size: int | None = None
    #: What both sides agreed on, and octets that were read for it.
    checksum: Checksum | None = None
    checksummed: int = 0


@dataclass(frozen=True, slots=True)
class Faulted:
    """This file met a fault. retry_at None: it is given up, or passed over as the user asked (skipped)."""

    file: FileRow
    fault: Fault
    retry_at: datetime | None
    #: What is on the destination's disk already; "" to begin afresh.
    ranges: str = ""
    #: The source's size as seen now, when it differs from the scan's.
    new_size: int | None = None
    skipped: bool = False
    #: Octets that were read for checksums that did not agree.
    checksummed: int = 0


@dataclass(frozen=True, slots=True)
class ItemFaulted:
    """The scan of this item met a fault. retry_at None: given up, or passed over (counts as one such file)."""

    item: ItemRow
    fault: Fault
    retry_at: datetime | None
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Missed:
    """What the scan passes over, as the user asked: a folder that cannot be listed, say. kind: as of `Found`."""

    source_path: str
    destination_path: str | None
    kind: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes of a file that are on the destination's disk, from its range markers."""

    file: FileRow
    ranges: str
    bytes: int


@dataclass(slots=True)
class Batch:
    """All that is written in one transaction."""

    settled: list[Settled] = field(default_factory=list)
    faulted: list[Faulted] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.settled or self.faulted or self.progress)


@dataclass(frozen=True, slots=True)
class Run:
    """What one slice moved, for forecasts. round_trip in seconds, between this service and the farther endpoint.

    whole: this slice both began and finished the task.
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
class Pulse:
    """What a heartbeat brings back."""

    cancel_requested: bool
    deadline: datetime
    #: A manager of an endpoint has paused the task: it is to be given back, and the store keeps it from running.
    pause_requested: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the task stands. next_try_at: the earliest of the pending files and unscanned items in backoff."""

    items_unscanned: int
    files_pending: int
    files_failed: int
    next_try_at: datetime | None
    #: Files and folders that were passed over.
    skipped_errors: int = 0


class TaskStore(Protocol):
    """One task's rows, for the worker that holds its lease. Each method raises LeaseLostError when it does not.

    Those that write what was found raise TooMuchError when the task, or its user, keeps too many rows by then.
    """

    async def heartbeat(self) -> Pulse:
        """Renew the lease; learn of a cancel, a pause or a moved deadline."""

    async def unscanned(self, limit: int, exclude: Sequence[int] = ()) -> Sequence[ItemRow]:
        """Items whose scan is not complete and whose next try is due, in the user's order, without `exclude`."""

    async def add_found(self, item: ItemRow, found: Sequence[Found]) -> Sequence[FileRow]:
        """Write a batch of found files; give back the new pending rows (a repeated scan finds nothing new).

        All or nothing: raises FaultError(AMBIGUOUS_PATH) and writes none of the batch when another source
        (of an earlier batch, or of this one) already has one of the destinations.
        """

    async def has_found(self, item: ItemRow) -> bool:
        """Whether any scan of this item has found something."""

    async def items(self, after: int, limit: int) -> Sequence[tuple[ItemRow, bool]]:
        """Items in the user's order, from the one behind the item of this id (0: the first).

        With each, whether it is one file (its own row is there) and no folder; true only of items that are scanned.
        """

    async def known(self, destinations: Sequence[str]) -> Collection[str]:
        """Those of these paths that are the destination of a file of this task."""

    async def item_scanned(self, item: ItemRow, directories: int, symlinks: int) -> None:
        """The scan of this item is complete."""

    async def file_items_scanned(self, found: Sequence[tuple[ItemRow, Found]]) -> Sequence[FileRow]:
        """`add_found` and `item_scanned` for many items that are one file each, in one transaction.

        All or nothing, with the errors of `add_found`.
        """

    async def items_faulted(self, faulted: Sequence[ItemFaulted]) -> None:
        """Items whose scan met a fault: their next try, their error events and counters, in one transaction."""

    async def pass_over(self, item: ItemRow, missed: Sequence[Missed]) -> None:
        """Record these as skipped, each once however often the scan is repeated."""

    async def pending(self, limit: int, exclude: Sequence[int]) -> Sequence[FileRow]:
        """Pending files that are due, sorted by (size, id); without those the engine already has in hand."""

    async def begun(self, limit: int) -> Sequence[FileRow]:
        """Pending files with a temporary path, or with something of them on the destination's disk."""

    async def write_temporary_paths(self, files: Sequence[FileRow]) -> None:
        """Record under which temporary names these files are about to be written."""

    async def write(self, batch: Batch) -> None:
        """Settle, fault and progress, with the task's counters and error events, in one transaction.

        A row that is no longer pending is left as it is: nothing is counted twice.
        """

    async def event(self, code: str, description: str, details: object, *, is_error: bool = False) -> None:
        """Append an event; details that are not a string are written as JSON."""

    async def endpoint_failed(self, fault: Fault, retry_at: datetime, *, lanes: bool = False) -> None:
        """An endpoint is of no use until then: counted, told, and the status of the task until it is reached again.

        lanes: it was reached to look around, and not to move files.
        """

    async def reached(self, sides: Sequence[Side], *, lanes: bool) -> None:
        """Servers of these sides were reached, with `lanes` to move files: what `endpoint_failed` has shown is over."""

    async def protected(self, protection: Protection) -> None:
        """A lane is protected so; told where none of the task was as weak before."""

    async def counts(self) -> Counts:
        """Where the task stands now."""

    async def learn(self, knowledge: Mapping[str, object] | None, run: Run | None) -> None:
        """Remember this of the pair of endpoints, in place of what was known, and what this slice moved.

        The one call that needs no lease: it tells of the endpoints, and changes nothing of the task.
        """

    async def finish(self) -> None:
        """End the task: SUCCEEDED when nothing failed and the counts add up, else FAILED."""

    async def fail(self, code: str, description: str) -> None:
        """End the task as FAILED: CANCELED, EXPIRED, or a fault that spoils all of it."""

    async def suspend(self, fault: Fault, had_credential: datetime | None) -> None:
        """Make the task INACTIVE: a person must act. had_credential: when the one was stored that is of no use."""

    async def release(self, next_run_at: datetime, connection_failures: int = 0) -> None:
        """Give the lease back; the task is queued again and may run from then on.

        connection_failures: for the next slice's `TaskSpec`, so that the backoff of an endpoint that is down grows.
        """


@dataclass(frozen=True, slots=True)
class LaneSettled:
    """Both sides answered success for this file and for every earlier one of its lane."""

    file: FileRow
    #: Bytes that the receiver says it wrote in this transfer; None when it did not say.
    bytes: int | None


@dataclass(frozen=True, slots=True)
class LaneRefused:
    """This file met a fault. `trusted_ranges` is what is surely its own content on the destination's disk."""

    file: FileRow
    fault: Fault
    trusted_ranges: str = ""
    #: The connection was lost when the destination had opened the file under its own name.
    begun: bool = False


@dataclass(frozen=True, slots=True)
class LaneReturned:
    """Not settled, through no fault of its own (an earlier file of the lane failed): to be sent again.

    suspect: the connection was lost, so a stale writer may be at work: use a temporary name.
    """

    file: FileRow
    suspect: bool
    #: As of LaneRefused.
    begun: bool = False


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A range marker of the receiver for this file; `ranges` is the union of all so far, trusted."""

    file: FileRow
    ranges: str
    bytes: int


LaneEvent = LaneSettled | LaneRefused | LaneReturned | LaneProgress


@dataclass(frozen=True, slots=True)
class Transport:
    """How data goes between two servers. buffer: octets of the TCP buffers, None as the operating system tunes them."""

    udt: bool = False
    buffer: int | None = None


TCP = Transport()
UDT = Transport(udt=True)


@dataclass(frozen=True, slots=True)
class Protection:
    """How the data channels of a lane are protected. level: one of LEVELS.

    Of clear ones: at which side what is in the way, in words that follow "the server", what helps, and its own words.
    """

    level: str
    side: Side = Side.UNKNOWN
    why: str = ""
    remedy: str = ""
    raw: str = ""


#: Of `Protection`, the weakest first.
LEVELS = CLEAR, AUTHENTICATED, ENCRYPTED = ("clear", "authenticated", "encrypted")


class Lane(Protocol):
    """Two sessions with their data channels: files flow through it in order, as many under way as the caller feeds."""

    @property
    def alive(self) -> bool:
        """False once a connection of it is lost; all its files have been given back then."""

    @property
    def protection(self) -> Protection:
        """How its data channels are protected."""

    def use_streams(self, parallelism: int) -> None:
        """Move the files to come over so many data streams; only while none is under way."""

    @property
    def begun(self) -> Sequence[FileRow]:
        """Files under way that the destination has opened under their own names, by its word."""

    def feed(self, file: FileRow) -> None:
        """Put a file into the pipe; never blocks."""

    async def events(self) -> Sequence[LaneEvent]:
        """Wait until something happened. Never raises for a fault of a file or of a connection."""

    async def close(self) -> None:
        """Give the sessions back if the lane is idle and clean, else end the connections."""


class Session(Protocol):
    """One authenticated control connection, for looking and for small changes. Methods raise FaultError."""

    async def stat(self, path: str) -> Entry:
        """Facts of one thing."""

    def listing(self, path: str) -> AsyncIterator[Sequence[Entry]]:
        """The entries of a folder, in batches, without "." and ".."."""

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """Make these folders (parents first in the list), pipelined; False for one that was there already."""

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """Remove (path, is_directory) in this order, pipelined; None where it went well."""

    async def remove_unlisted(self, path: str) -> None:
        """Remove a folder that lists as empty and is not: the server may not show symlinks that lead nowhere.

        Nothing is followed. Not every server can do that.
        """

    async def rename(self, old: str, new: str) -> None:
        """Rename on the same server."""

    @property
    def algorithms(self) -> Sequence[str]:
        """Checksums that this server can make, the one it likes best first (FEAT CKSM); empty when it makes none."""

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file (CKSM), hexadecimal, lower case. However long that takes, while it goes on."""

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set the modification times of these (MFMT), pipelined; None where it went well."""

    @property
    def tells_links(self) -> bool:
        """Whether its facts tell a symlink to a folder from a folder."""

    @property
    def resolves_links(self) -> bool:
        """Whether it tells of a symlink the full path of what it leads to in the end, rather than its text."""

    async def make_symlink(self, target: str, path: str) -> None:
        """Make a symlink; one that leads there already is fine. What else is there is a fault (PATH_EXISTS).

        Some servers want that to be there which it leads to: else FILE_NOT_FOUND.
        """


class SessionFactory(Protocol):
    """Opens sessions and lanes, warm ones when it has them. Raises FaultError when a server cannot be reached."""

    @property
    def round_trip(self) -> float | None:
        """Seconds to the farther endpoint and back, the shortest seen of each; None: neither was reached yet."""

    async def session(self, side: Side) -> Session:
        """A session to the source or the destination endpoint of the task."""

    async def give_back(self, session: Session) -> None:
        """The session is idle and may serve somebody else."""

    async def lane(self, *, transport: Transport = TCP) -> Lane:
        """A lane from source to destination; `use_streams` comes before the first file.

        Where the servers do not allow the transport, or it has failed before, the lane moves by TCP.
        """

    @property
    def transport(self) -> Transport:
        """What the lane that was opened last moves by."""


class Clock(Protocol):
    """Time, injected: tests never sleep for real."""

    def now(self) -> datetime:
        """The time now, aware, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
