"""Checks whether a complete file arrived. Pure."""

from __future__ import annotations

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.third_party.slots import MAX_RANGES
from transferapi.tasks.records import FileRow, SettledFile

#: Seconds after which a file that is too short at its destination is looked at once more.
LATER = 2.0


def octets(ranges: str) -> int:
    """The number of octets in these ranges; 0 for ranges that cannot be read."""
    try:
        return RangeSet.parse(ranges).total if ranges else 0
    except RangeError:
        return 0


def readable(file: FileRow) -> FileRow:
    """The file as a lane continues it: without ranges that cannot be read, so that it is sent from the start."""
    try:
        if file.ranges:
            RangeSet.parse(file.ranges, MAX_RANGES)
    except RangeError:
        return file._replace(ranges="")
    return file


def size_of(arrived: SettledFile) -> int:
    """Octets of a file that has arrived."""
    return arrived.file.size if arrived.new_size is None else arrived.new_size


def complete_ranges(arrived: SettledFile) -> str:
    """The ranges with which an arrived file is continued without sending anything; "" to send it from the start.

    A file with another size than its row has could not be continued.
    """
    if arrived.new_size is not None or not arrived.file.size:
        return ""
    return RangeSet([(0, arrived.file.size)]).format()


def moved_now(file: FileRow, received: int | None) -> int | None:
    """Octets that this transfer moved, if they complete the file; None when the sizes must be compared.

    received: the sum of the receiver's markers. After a restart some servers count the octets that were there before,
    some do not; a receiver without markers reports nothing, or 0.
    """
    if not file.ranges:
        return received if received == file.size else None
    try:
        had = RangeSet.parse(file.ranges).total
    except RangeError:
        return None
    return file.size - had if received in (file.size, file.size - had) else None


def can_continue(file: FileRow, size_on_disk: int) -> bool:
    """Whether a file of this size on the destination's disk can contain the recorded ranges.

    One that is complete under its final name has its full size.
    """
    if octets(file.ranges) == file.size and not file.temporary_path:
        return size_on_disk == file.size
    try:
        ends = [end for _, end in RangeSet.parse(file.ranges)]
    except RangeError:
        return False
    return bool(ends) and ends[-1] <= size_on_disk


def same_version(file: FileRow, source: Entry) -> bool:
    """Whether the source is still the version of the row, as far as its size and time show.

    Whole seconds are compared, which is all that most servers report (RFC 3659 section 2.3). Without a time the size
    alone counts.
    """
    if source.size != file.size:
        return False
    if source.modified is None or file.modified is None:
        return True
    return source.modified.replace(microsecond=0) == file.modified.replace(microsecond=0)


def same_entry(before: Entry, now: Entry) -> bool:
    """Whether an entry is as it was, as far as the server shows: then it may not have been written."""
    return (before.kind, before.size, before.modified, before.unique) == (now.kind, now.size, now.modified, now.unique)


def compare_sizes(file: FileRow, received: int | None, source_size: int, destination_size: int) -> SettledFile | str:
    """Compare the sizes on both sides, after both reported success. A string describes what is wrong.

    The size of a continued file proves nothing: octets may be missing in the middle, or be of another version. It is
    sent from the start, unless the receiver sends no markers at all.
    """
    if source_size != destination_size:
        return f"{source_size} octets at the source, {destination_size} arrived, {file.size} were expected"
    if file.ranges and (received or source_size != file.size):
        return f"the markers of the continued file do not add up to {source_size} octets"
    new_size = source_size if source_size != file.size else None
    return SettledFile(file, received or source_size, new_size=new_size)
