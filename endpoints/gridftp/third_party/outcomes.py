"""With which events the files that are not settled leave a `ThirdPartyPair`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from endpoints.gridftp.faults import Fault, FaultScope, Kind
from endpoints.gridftp.ranges import RangeSet

from .slots import CONSEQUENCES, FileRefused, FileReturned, Slot

#: Kinds that a refused open gives: such a refusal says something about its own file, wherever it stands in the lane.
_OPEN_REFUSALS = frozenset(
    {
        Kind.FILE_NOT_FOUND,
        Kind.PERMISSION_DENIED,
        Kind.IS_A_DIRECTORY,
        Kind.NOT_A_DIRECTORY,
        Kind.INVALID_PATH_NAME,
    }
)


def surely_own(slot: Slot, slots: Iterable[Slot]) -> bool:
    """Whether what the destination wrote for this file is surely this file's own content.

    slots: the files under way, the first one first. The source has begun exactly this file and has failed none before
    it; nor has the destination.
    """
    if not _own_when_first(slot):
        return False
    for earlier in slots:
        if earlier is slot:
            return True
        if earlier.faulty or not earlier.source.done:
            return False
    return False


def drained(slots: Iterable[Slot]) -> Iterator[tuple[Slot, FileRefused | FileReturned]]:
    """The event for each file when both sides have answered PASV. The first file has failed.

    A later file is at fault itself only when a server refused to open it; any other failure is a consequence.
    """
    for index, slot in enumerate(slots):
        if index == 0:
            yield slot, FileRefused(slot.transfer.tag, slot.cause, trusted(slot))
        elif slot.faulty and slot.cause.kind in _OPEN_REFUSALS:
            yield slot, FileRefused(slot.transfer.tag, slot.cause, None)
        else:
            yield slot, FileReturned(slot.transfer.tag, suspect=False)


def lost(
    renaming: Iterable[Slot],
    cleaning: Iterable[tuple[Slot, FileRefused | FileReturned]],
    slots: Iterable[Slot],
    fault: Fault,
) -> Iterator[FileRefused | FileReturned]:
    """The event for each file under way when a control connection is lost."""
    for slot in renaming:
        yield FileReturned(slot.transfer.tag, suspect=True)
    for slot, event in cleaning:
        yield _lost_while_cleaning(slot, event)
    for index, slot in enumerate(slots):
        if index == 0:
            cause = replace(_cause(slot, fault), scope=FaultScope.SESSION)
            yield FileRefused(slot.transfer.tag, cause, trusted(slot), slot.begun)
        else:
            yield FileReturned(slot.transfer.tag, suspect=True, begun=slot.begun)


def _cause(first: Slot, loss: Fault) -> Fault:
    """The fault for the first file: its own, or the loss of a computer that explains it."""
    if not first.faulty or (loss.kind is Kind.AGENT_AWAY and first.cause.kind in CONSEQUENCES):
        return loss
    return first.cause


def _lost_while_cleaning(slot: Slot, event: FileRefused | FileReturned) -> FileRefused | FileReturned:
    """The event for a file whose DELE was under way: it is unknown whether it has been done, or will be done later."""
    if isinstance(event, FileReturned):
        return event._replace(suspect=True, begun=slot.begun)
    return event._replace(fault=replace(event.fault, scope=FaultScope.SESSION), begun=slot.begun)


def trusted(first: Slot) -> RangeSet | None:
    """The ranges of the first file under way that may be continued; None where there are none."""
    return (first.on_disk() if _own_when_first(first) else None) or None


def _own_when_first(slot: Slot) -> bool:
    """`surely_own` for the first file under way."""
    return slot.source.started and not slot.restart_refused
