"""The ports of the engine: task store, sessions and lanes, clock. `tests/engine_fakes/` has an in-memory fake of each.

The engine uses no Django, no socket and no clock of its own. A path is a `str` decoded with surrogateescape.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, Side
from endpoints.gridftp.third_party.slots import FileEvent
from endpoints.gridftp.wire.fence import Fence
from transferapi.tasks.records import (
    DataProtection,
    DataWay,
    FaultedItem,
    FileRow,
    FoundFile,
    HeartbeatReply,
    ItemRow,
    SettledFile,
    Settlement,
    SkippedSource,
    SliceMeasurement,
    TaskCounts,
)


class TaskStore(Protocol):
    """The rows of one task, for the worker that holds its lease. Each method raises LeaseLostError without a lease.

    Methods that write found files raise TooMuchError where the task, or its user, would keep too many rows.
    """

    async def heartbeat(self) -> HeartbeatReply:
        """Renew the lease; the reply reports a cancel, a pause or another deadline."""

    async def unscanned(self, limit: int, exclude: Sequence[int] = ()) -> Sequence[ItemRow]:
        """Items whose scan is not complete and whose next attempt is due, in the user's order, without `exclude`."""

    async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> Sequence[FileRow]:
        """Write a batch of found files; return the new pending rows (a repeated scan adds none).

        All or nothing: raises FaultError(AMBIGUOUS_PATH), and writes none of the batch, where another source of this
        or of an earlier batch already has one of the destinations.
        """

    async def has_found(self, item: ItemRow) -> bool:
        """Whether any scan of this item has found a file."""

    async def items(self, after: int, limit: int) -> Sequence[tuple[ItemRow, bool]]:
        """Items in the user's order, from the one behind the item of this id (0: the first).

        With each, whether it is one file (it has a row of its own) and no folder; true only for scanned items.
        """

    async def known(self, destinations: Sequence[str]) -> Collection[str]:
        """Return the paths among `destinations` that a file of this task has as its destination."""

    async def item_scanned(self, item: ItemRow, directories: int, symlinks: int) -> None:
        """Mark the scan of this item as complete."""

    async def file_items_scanned(self, found: Sequence[tuple[ItemRow, FoundFile]]) -> Sequence[FileRow]:
        """`add_found` and `item_scanned` for many items that are one file each, in one transaction.

        All or nothing, with the errors of `add_found`.
        """

    async def items_faulted(self, faulted: Sequence[FaultedItem]) -> None:
        """Write faults of scans: next attempts, error events and counters, in one transaction."""

    async def skip_sources(self, item: ItemRow, missed: Sequence[SkippedSource]) -> None:
        """Record these as skipped, each once however often the scan is repeated."""

    async def pending(self, limit: int, exclude: Sequence[int]) -> Sequence[FileRow]:
        """Pending files that are due, sorted by (size, id), without `exclude`, which the engine already has."""

    async def begun(self, limit: int) -> Sequence[FileRow]:
        """Pending files of which something may lie at the destination: those with a recorded temporary path or ranges
        first, then those that a lost worker may have begun."""

    async def others_write(self) -> bool:
        """Whether another unfinished task may write the same files."""

    async def write_temporary_paths(self, files: Sequence[FileRow]) -> None:
        """Record the temporary names under which these files are about to be written."""

    async def source_changed(self, files: Sequence[FileRow]) -> None:
        """Record the new size and time of these pending files, and forget what has arrived of the earlier version."""

    async def arrived(self, after: int, limit: int) -> Sequence[SettledFile]:
        """Files that have arrived over an entry of the destination, or may have, and that a lost worker had to send.

        In the order of their ids, above `after`. The size is that of the file's row.
        """

    async def send_again(self, files: Sequence[FileRow]) -> None:
        """Make these files pending again: they are not at the destination as they arrived."""

    async def write(self, batch: Settlement) -> None:
        """Write outcomes of files, with the task's counters and error events, in one transaction.

        A row that is no longer pending is not changed, so that nothing is counted twice.
        """

    async def event(self, code: str, description: str, details: object) -> None:
        """Append an event; details that are not a string are written as JSON."""

    async def endpoint_failed(self, fault: Fault, retry_at: datetime, *, lanes: bool = False) -> None:
        """Record that an endpoint cannot be used until then: the status of the task until it is reached again.

        lanes: control sessions are possible, but none that move files.
        """

    async def reached(self, sides: Sequence[Side], *, lanes: bool) -> None:
        """Clear the status of `endpoint_failed`: servers of these sides were reached; lanes: to move files."""

    async def protected(self, protection: DataProtection) -> None:
        """Record the protection of a lane, with an event where no earlier lane of the task was as weak."""

    async def data_goes(self, way: DataWay) -> None:
        """Record the way of a lane's data, with an event where it is another one than before."""

    async def counts(self) -> TaskCounts:
        """The work that the task has left."""

    async def learn(self, knowledge: Mapping[str, object] | None, run: SliceMeasurement | None) -> None:
        """Replace the knowledge of the pair of endpoints, and record the measurement of this slice.

        Only this call needs no lease: it is about the endpoints, and does not change the task.
        """

    async def finish(self) -> None:
        """End the task: SUCCEEDED where no file failed and the counts add up, else FAILED."""

    async def fail(self, code: str, description: str) -> None:
        """End the task as FAILED: CANCELED, EXPIRED, or a fault of the whole task."""

    async def suspend(self, fault: Fault, had_credential: datetime | None) -> None:
        """Make the task INACTIVE: a person must act. had_credential: when the unusable credential was stored."""

    async def ask_deletion(self, extra: int, total: int) -> None:
        """Make the task INACTIVE: its owner must confirm that `extra` of the destination's `total` entries go."""

    async def wait_for_agent(self, fault: Fault, look_at: datetime, connection_failures: int = 0) -> None:
        """Release the lease: the task waits until the agent of the fault's side is back, or until `look_at`.

        Where the agent is connected, its connection was only lost: that is recorded as in `endpoint_failed`.
        """

    async def release(self, next_run_at: datetime | None, connection_failures: int = 0) -> None:
        """Release the lease; the task is queued again and may run from `next_run_at` on; with None it keeps its place.

        connection_failures: for the next slice's `TaskSpec`, so that the backoff of an unreachable endpoint grows.
        """


@dataclass(frozen=True, slots=True)
class Transport:
    """The transport of data between two servers. buffer: octets of the TCP buffers; None: tuned by the system."""

    udt: bool = False
    buffer: int | None = None


TCP = Transport()
UDT = Transport(udt=True)


class Lane(Protocol):
    """Two sessions with their data channels. Files pass in order; the caller decides how many are in progress."""

    @property
    def alive(self) -> bool:
        """False once a connection is lost; all files have been returned then."""

    @property
    def protection(self) -> DataProtection:
        """The protection of the data channels."""

    @property
    def data_way(self) -> DataWay | None:
        """The way of the data, where an agent has a part in it; else None."""

    def use_streams(self, parallelism: int) -> None:
        """Set the number of data streams for later files; only while no file is in progress."""

    @property
    def begun(self) -> Sequence[FileRow]:
        """Files in progress that the destination reports as opened under their own names."""

    @property
    def renaming(self) -> int:
        """Files in progress that have arrived and wait for their final names: they need no place in the pipeline."""

    def feed(self, file: FileRow) -> None:
        """Add a file; never blocks."""

    async def events(self) -> Sequence[FileEvent]:
        """Wait for events of the files; their tag is the `FileRow`. A fault is an event and is not raised.

        Returns none where files begin to wait for their names (`renaming`): others may be fed in their places.
        """

    async def close(self) -> None:
        """Return the sessions to the pool where the lane is idle and clean, else close the connections."""


class Session(Protocol):
    """An authenticated control connection, for listings and small changes. Methods raise FaultError."""

    async def stat(self, path: str) -> Entry:
        """The facts of one path."""

    def listing(self, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a folder, in batches, without "." and ".."."""

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        """Create these folders (parents first in the list), pipelined; False for one that existed already."""

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        """Remove (path, is_directory) in this order, pipelined; None for success."""

    async def remove_unlisted(self, path: str) -> None:
        """Remove a folder that appears empty and is not: the server may not list dangling symlinks.

        No link is followed. Not every server supports this.
        """

    async def rename(self, old: str, new: str) -> None:
        """Rename on the same server."""

    @property
    def replaces(self) -> bool:
        """Whether a lane replaces a file of this server by another one, and keeps its mode, owner, ACLs and links."""

    @property
    def algorithms(self) -> Sequence[str]:
        """Checksum algorithms of this server, its preferred one first (FEAT CKSM); empty: none."""

    async def check_readable(self, path: str) -> None:
        """Open a file for reading, and move nothing. Raises the fault; servers that have no way for it raise none."""

    async def checksum(self, path: str, algorithm: str) -> str:
        """The checksum of a whole file (CKSM), hexadecimal, lower case. No time limit while the server works."""

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        """Set modification times (MFMT), pipelined; None for success."""

    @property
    def tells_links(self) -> bool:
        """Whether its facts distinguish a symlink to a folder from a folder."""

    @property
    def resolves_links(self) -> bool:
        """Whether it reports the full final path of a symlink's target, rather than the text of the link."""

    async def make_symlink(self, target: str, path: str) -> None:
        """Create a symlink. An equal one may exist already; any other file is a fault (PATH_EXISTS).

        Some servers require that the target exists: else FILE_NOT_FOUND.
        """


class SessionFactory(Protocol):
    """Opens sessions and lanes, or reuses idle ones. Raises FaultError where a server cannot be reached."""

    @property
    def fence(self) -> Fence:
        """Until when octets may leave by its sessions and lanes. The slice extends it with each good heartbeat."""

    @property
    def round_trip(self) -> float | None:
        """The round trip to the farther endpoint in seconds, the shortest measured of each; None: not measured yet."""

    async def session(self, side: Side) -> Session:
        """A session to the source or the destination endpoint of the task."""

    async def may_share_storage(self) -> bool:
        """Whether the servers of both endpoints may show one storage: their addresses or names are near each other."""

    async def give_back(self, session: Session) -> None:
        """Return an idle session for reuse."""

    async def lane(self, *, transport: Transport = TCP, relayed: bool = False) -> Lane:
        """A lane from source to destination; call `use_streams` before the first file.

        relayed: `Plan.relayed`. Where that is not possible the lane takes another way.
        Where the servers do not allow the transport, or it has failed before, the lane uses TCP.
        """

    @property
    def transport(self) -> Transport:
        """The transport of the lane that was opened last."""


class Clock(Protocol):
    """The injected clock: tests never really sleep."""

    def now(self) -> datetime:
        """The present time, aware, UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
