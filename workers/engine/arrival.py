"""Whether what arrived is the whole file. Pure."""

from __future__ import annotations

from endpoints.gridftp.ranges import RangeError, RangeSet

from .ports import FileRow, Settled


def octets(ranges: str) -> int:
    """How much these ranges say is on the destination's disk; 0 for what cannot be read."""
    try:
        return RangeSet.parse(ranges).total if ranges else 0
    except RangeError:
        return 0


def size_of(arrived: Settled) -> int:
    """Octets of a file that has arrived."""
    return arrived.file.size if arrived.new_size is None else arrived.new_size


def kept(arrived: Settled) -> str:
    """The ranges by which a file that has arrived is continued where nothing is left to send; "" to begin afresh.

    What has another name in the store, or another size, would be looked for where it is not.
    """
    if arrived.file.temporary_path or arrived.new_size is not None or not arrived.file.size:
        return ""
    return RangeSet([(0, arrived.file.size)]).format()


def moved_now(file: FileRow, received: int | None) -> int | None:
    """Octets that this transfer moved, when that makes the file whole; None when it must be looked at.

    received: what the receiver's markers add up to. After a restart some servers count what was there before, some
    do not; a receiver that sends no markers says nothing, or 0.
    """
    if not file.ranges:
        return received if received == file.size else None
    try:
        had = RangeSet.parse(file.ranges).total
    except RangeError:
        return None
    return file.size - had if received in (file.size, file.size - had) else None


def can_continue(file: FileRow, size_on_disk: int) -> bool:
    """Whether what is on the destination's disk can be what the ranges of this file tell of."""
    try:
        ends = [end for _, end in RangeSet.parse(file.ranges)]
    except RangeError:
        return False
    return bool(ends) and ends[-1] <= size_on_disk


def verdict(file: FileRow, received: int | None, source_size: int, destination_size: int) -> Settled | str:
    """What to make of the sizes on both sides, after both sides answered success; a string tells what is wrong.

    A file that was continued proves nothing by its size: octets may be missing in the middle, or be of another
    version. It begins afresh, unless the receiver sends no markers at all.
    """
    if source_size != destination_size:
        return f"{source_size} octets at the source, {destination_size} arrived, {file.size} were expected"
    if file.ranges and (received or source_size != file.size):
        return f"the markers of the continued file do not add up to {source_size} octets"
    new_size = source_size if source_size != file.size else None
    return Settled(file, received or source_size, new_size=new_size)
