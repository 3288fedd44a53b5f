"""The input and the output of a `ThirdPartyPair`, and a file under way in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from endpoints.gridftp.commands import encode
from endpoints.gridftp.faults import Fault, Kind, Side, classify, make_fault
from endpoints.gridftp.markers import RANGE_CODE, SYNCED_FROM, MarkerError, RangeMarker, parse_marker
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.replies import Reply

#: Octets at the beginning of an interrupted file that are never trusted. When the control connection ends in the middle
#: of a file, the toolkit's server writes its buffered blocks, complete or not, to offset 0 in one case of four. Its
#: blocks have 256 KiB, unless its administrator chose larger ones (docs/decisions/settlement.md).
HEAD = 4 * 2**20
#: The most ranges of one file on the disk, those of earlier attempts included. REST names all of them in one line, with
#: up to 40 octets each; `commands.MAX_ARGUMENT` bounds the line. Blocks arrive nearly in order, and make far fewer.
MAX_RANGES = 200
#: The most range markers for one file: one a second for eleven days.
MAX_MARKERS = 1_000_000
#: Kinds that often are only a consequence of a fault on the other side: any other kind says more about the cause. Of
#: two of them the earlier one says more: a sender meets a reset, and no peer, whatever ended the receiver.
_BY_MEANING = (
    Kind.CONNECT_FAILED, Kind.UNKNOWN, Kind.TIMEOUT, Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET,
)  # fmt: skip
CONSEQUENCES = frozenset(_BY_MEANING)


class Transfer(NamedTuple):
    """One file to move. `write_path` is the name in STOR; `rename_to` the final name when that differs.

    size: octets when the folder was scanned; may be wrong. Only used to recognize the last marker.
    ranges: already on the destination's disk (REST to both sides), or None to send the whole file.
    part: send these octets only (ERET and ESTO, GFD.20), from the first offset up to the second. The rest of the file
    at the destination stays as it is; markers count from the first offset.
    truncates: the part begins at 0, and takes the place of a file that is there (STOR in place of ESTO).
    tag: the caller's own; each event of this file has it.
    """

    tag: object
    source_path: bytes
    write_path: bytes
    size: int = 0
    rename_to: bytes | None = None
    ranges: RangeSet | None = None
    part: tuple[int, int] | None = None
    truncates: bool = False

    @property
    def joins_others(self) -> bool:
        """Whether the file holds parts that were moved before, or that other lanes move."""
        return self.part is not None and not self.truncates


class FileSettled(NamedTuple):
    """Both sides succeeded for this file and every earlier one. bytes: received now, None when unknown."""

    tag: object
    bytes: int | None


class FileRefused(NamedTuple):
    """This file has a fault of its own. trusted: ranges on the destination's disk that are surely its content, or None.

    begun: the connection is lost, and the destination had opened the file under its final name.
    unnamed: all of it has arrived under its temporary name, which the destination does not show, or refuses to change.
    """

    tag: object
    fault: Fault
    trusted: RangeSet | None
    begun: bool = False
    unnamed: bool = False


class FileReturned(NamedTuple):
    """Not settled and not at fault. suspect: a server process may still write to the file. begun: as above."""

    tag: object
    suspect: bool
    begun: bool = False


class FileProgress(NamedTuple):
    """These ranges are on the destination's disk, and surely of this file's content."""

    tag: object
    ranges: RangeSet


@dataclass(frozen=True, slots=True)
class Flush:
    """Connect to this address of the destination and close at once, to free it from accept()."""

    host: str
    port: int


FileEvent = FileSettled | FileRefused | FileReturned | FileProgress
PairEvent = FileEvent | Flush


class FileSide:
    """The replies of one side to the STOR or RETR of one file."""

    __slots__ = ("done", "fault", "started")

    def __init__(self) -> None:
        self.started = False
        self.done = False
        self.fault: Fault | None = None

    def answered(self, reply: Reply, side: Side) -> None:
        """The final reply. An earlier fault (a refused REST, a malformed marker) remains the cause."""
        self.done = True
        if reply.is_error and self.fault is None:
            self.fault = classify(reply, side)


class Slot:
    """A file under way, with its command lines. Raises CommandError for a name with a control character.

    head: octets at its beginning that are never trusted.
    """

    __slots__ = (
        "destination",
        "head",
        "markers",
        "received",
        "renaming",
        "restart_refused",
        "retrieve",
        "source",
        "store",
        "transfer",
    )

    def __init__(self, transfer: Transfer, head: int = HEAD) -> None:
        self.transfer = transfer
        self.head = head
        if transfer.part is None:
            self.retrieve = encode("RETR", transfer.source_path)
            self.store = encode("STOR", transfer.write_path)
        else:
            start, end = transfer.part
            self.retrieve = encode("ERET", b"P %d %d %b" % (start, end - start, transfer.source_path))
            self.store = (
                encode("STOR", transfer.write_path)
                if transfer.truncates
                else encode("ESTO", b"A %d %b" % (start, transfer.write_path))
            )
        #: RNFR and RNTO, or nothing.
        self.renaming: tuple[bytes, bytes] | None = None
        if transfer.rename_to is not None:
            self.renaming = encode("RNFR", transfer.write_path), encode("RNTO", transfer.rename_to)
        self.source = FileSide()
        self.destination = FileSide()
        self.received = RangeSet()
        self.markers = 0
        #: Whether the file must be sent from its start next time.
        self.restart_refused = False

    def side(self, side: Side) -> FileSide:
        return self.source if side is Side.SOURCE else self.destination

    @property
    def faulty(self) -> bool:
        return self.source.fault is not None or self.destination.fault is not None

    @property
    def begun(self) -> bool:
        """Whether the destination has opened it under its final name."""
        return self.destination.started and self.transfer.rename_to is None

    @property
    def moved(self) -> bool:
        """Whether both sides answered success."""
        source, destination = self.source, self.destination
        return source.done and destination.done and source.fault is None and destination.fault is None

    @property
    def cause(self) -> Fault:
        """The fault, of one or two, that says more about the cause. At least one side has a fault."""
        faults = [side.fault for side in (self.source, self.destination) if side.fault]
        return min(faults, key=lambda fault: _BY_MEANING.index(fault.kind) if fault.kind in CONSEQUENCES else -1)

    def restart_argument(self, *, stream_mode: bool) -> bytes:
        """The argument of REST: ranges in mode E, one offset in mode S (RFC 3659 section 5)."""
        assert self.transfer.ranges
        if not stream_mode:
            return self.transfer.ranges.format().encode()
        start, end = next(iter(self.transfer.ranges))
        return b"%d" % (end if start == 0 else 0)

    def add_marker(self, reply: Reply) -> bool:
        """Count a range marker; False where it cannot be read, or there are too many ranges or markers.

        Markers are incremental: the union of all is on the disk. After a fault no marker counts.
        """
        if self.destination.fault is not None:
            return False
        try:
            marker = parse_marker(RANGE_CODE, reply.lines)
            assert isinstance(marker, RangeMarker)
            if self.received:
                for start, end in marker.ranges:
                    self.received.add(start, end)
            else:
                self.received = marker.ranges
            self._check_bounds()
        except (MarkerError, RangeError) as error:
            self.destination.fault = make_fault(Kind.ENDPOINT_ERROR, str(error), side=Side.DESTINATION)
            if isinstance(error, RangeError):
                # The next attempt sends the whole file. The reported ranges take no more memory.
                self.received, self.restart_refused = RangeSet(), True
            return False
        return True

    def _check_bounds(self) -> None:
        """Count a marker. Raises RangeError if the file has too many markers or ranges."""
        self.markers += 1
        if self.markers > MAX_MARKERS:
            raise RangeError(f"more than {MAX_MARKERS} range markers for one file")
        before = self.transfer.ranges or ()
        if len(self.received) + len(before) > MAX_RANGES and len(self._union()) > MAX_RANGES:
            raise RangeError(f"the markers of one file have more than {MAX_RANGES} ranges")

    def _union(self) -> RangeSet:
        """The ranges of before, and those received. Raises RangeError."""
        before = self.transfer.ranges
        return self.received.union(before) if before else self.received

    def on_disk(self) -> RangeSet:
        """The ranges that the destination reported, now and before, and that may be continued."""
        ranges = self._union()
        if not self.head and self._may_be_in_memory_only(ranges):
            return RangeSet()
        return ranges.beyond(self.head)

    def _may_be_in_memory_only(self, ranges: RangeSet) -> bool:
        """Whether a server of ours may not have synced these ranges.

        It does not sync a small file before the marker with its last octets.
        """
        size = self.transfer.size
        return self.transfer.part is None and size < SYNCED_FROM and ranges.total >= size
