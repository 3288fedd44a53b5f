"""What goes into a `ThirdPartyPair` and comes out of it, and a file under way in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .commands import encode
from .faults import Fault, Kind, Side
from .ranges import RangeSet

#: Octets at the beginning of a file that are never trusted once it was broken off. The toolkit's server, when its
#: control connection ends in the middle of a file, writes blocks that it had in hand, whole or not, to offset 0: one
#: time in four. Its blocks have 256 KiB, unless its administrator chose larger ones (docs/decisions/0002).
HEAD = 4 * 2**20
#: Kinds that often are only the echo of what happened on the other side: any other kind tells more.
_ECHOES = frozenset({Kind.UNKNOWN, Kind.CONNECT_FAILED, Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET, Kind.TIMEOUT})


class Transfer(NamedTuple):
    """One file to move. `write_path` is where it is written; `rename_to` its real name when that differs.

    size: octets, as the scan saw them; only tells when a marker is the last one, and may be wrong.
    ranges: what is on the destination's disk already (REST to both sides), or None to begin afresh.
    tag: the caller's own, comes back in each event.
    """

    tag: object
    source_path: bytes
    write_path: bytes
    size: int = 0
    rename_to: bytes | None = None
    ranges: RangeSet | None = None


class FileSettled(NamedTuple):
    """Both sides succeeded for this file and every earlier one. bytes: received now, None when unknown."""

    tag: object
    bytes: int | None


class FileRefused(NamedTuple):
    """This file met a fault of its own. trusted: surely its own content on the destination's disk, or None.

    begun: the connection is lost, and the destination had opened the file under its real name.
    """

    tag: object
    fault: Fault
    trusted: RangeSet | None
    begun: bool = False


class FileReturned(NamedTuple):
    """Not settled and not at fault. suspect: a server process may still write under its name. begun: as above."""

    tag: object
    suspect: bool
    begun: bool = False


class FileProgress(NamedTuple):
    """These ranges are on the destination's disk, and surely of this file."""

    tag: object
    ranges: RangeSet


@dataclass(frozen=True, slots=True)
class Flush:
    """Connect to this address of the destination and close at once, to free it from accept()."""

    host: str
    port: int


PairEvent = FileSettled | FileRefused | FileReturned | FileProgress | Flush


class Half:
    """What one side said about one file."""

    __slots__ = ("done", "fault", "started")

    def __init__(self) -> None:
        self.started = False
        self.done = False
        self.fault: Fault | None = None


class Slot:
    """A file under way, with its lines. Raises CommandError for a name that no wire may carry."""

    __slots__ = ("destination", "received", "restart_refused", "retrieve", "source", "store", "transfer")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.retrieve = encode("RETR", transfer.source_path)
        self.store = encode("STOR", transfer.write_path)
        if transfer.rename_to is not None:
            encode("RNTO", transfer.rename_to)
        self.source = Half()
        self.destination = Half()
        self.received = RangeSet()
        self.restart_refused = False

    def half(self, side: Side) -> Half:
        return self.source if side is Side.SOURCE else self.destination

    @property
    def faulty(self) -> bool:
        return self.source.fault is not None or self.destination.fault is not None

    @property
    def begun(self) -> bool:
        """The destination has opened it under its real name."""
        return self.destination.started and self.transfer.rename_to is None

    @property
    def moved(self) -> bool:
        """Both sides answered success."""
        source, destination = self.source, self.destination
        return source.done and destination.done and source.fault is None and destination.fault is None

    @property
    def cause(self) -> Fault:
        """Of what the two sides say, that which tells more."""
        faults = [half.fault for half in (self.source, self.destination) if half.fault]
        return min(faults, key=lambda fault: fault.kind in _ECHOES)

    def on_disk(self) -> RangeSet:
        """What the destination has of this file by its own word, now and from before, and may be continued."""
        before = self.transfer.ranges
        return (self.received.union(before) if before else self.received).beyond(HEAD)
