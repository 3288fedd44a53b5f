"""The names under which files are written at the destination before they get their real ones. Pure.

The reasons: docs/decisions/settlement.md.

A name belongs to one file in one lease, or in one sending after a lost connection, so that a late server process, of
whatever connection or worker, can only write to a file that nobody uses. The name follows from the mark of the lease
and the id of the file: nothing is recorded before a file is sent, and the next worker computes what a lost one may have
left. A name that does not follow from them (`TemporaryNames.give`) is recorded first.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence

from transferapi.tasks.records import FileRow

#: The suffix of a temporary file's name when a partial file also lies under the final name.
BEGUN = "-b"
_PREFIX = ".waybill-"
#: Between the marks in a name: its own, and those of the file's earlier names that could not be removed.
_BETWEEN = "_"
#: The most marks in a name.
_MOST_MARKS = 6
#: Hexadecimal digits of a lease's mark in a name, and of the file.
_LEASE, _FILE = 8, 16
#: Refusals after which, without any success, a server is taken for one that refuses all temporary names.
_REFUSALS = 3
_OWN_NAME = re.compile(rf"{re.escape(_PREFIX)}[0-9a-f]{{{_LEASE + _FILE}}}(_[0-9a-f]{{{_LEASE + _FILE}}})*({BEGUN})?")


def is_temporary(name: str) -> bool:
    """Whether this name of an entry is one that a task gives to a file on its way."""
    return name.startswith(_PREFIX) and _OWN_NAME.fullmatch(name) is not None


def has_begun(row: FileRow) -> bool:
    """Whether this task wrote a partial file under the final name."""
    temporary = row.temporary_path
    return row.begun or (bool(row.ranges) if temporary is None else temporary.endswith(BEGUN))


def partials(row: FileRow) -> list[str]:
    """The paths at the destination to remove when this file is given up: those that this task surely wrote.

    A file that was there before, and that no server reported to have opened, is not among them.
    """
    temporary = [row.temporary_path, *earlier_names(row)] if row.temporary_path else []
    return [*temporary, row.destination_path] if has_begun(row) and row.destination_path else temporary


def earlier_names(row: FileRow) -> list[str]:
    """The temporary paths that this file had when a computer went away, and kept what lay there."""
    if not row.temporary_path:
        return []
    folder, _, _ = row.temporary_path.rpartition("/")
    marks = _marks(row)
    older = [_BETWEEN.join(marks[number:]) for number in range(1, len(marks))]
    return [f"{folder}/{_PREFIX}{one}{suffix}" for one in older for suffix in ("", BEGUN)]


def _marks(row: FileRow) -> list[str]:
    name = (row.temporary_path or "").rpartition("/")[2]
    return name.removeprefix(_PREFIX).removesuffix(BEGUN).split(_BETWEEN) if name else []


def _own_name(mark: str, row: FileRow) -> str:
    """The name of a file in the lease of this mark; it says nothing about the name of another file."""
    digest = hashlib.blake2b(row.id.to_bytes(8, "big"), key=bytes.fromhex(mark), digest_size=_FILE // 2)
    return f"{_folder(row)}/{_PREFIX}{mark[:_LEASE]}{digest.hexdigest()}{BEGUN if has_begun(row) else ''}"


def _folder(row: FileRow) -> str:
    return (row.destination_path or "").rpartition("/")[0]


class TemporaryNames:
    """The names that one slice gives. mark, lost_marks: `TaskSpec`; without a mark it draws one."""

    def __init__(self, mark: str = "", lost_marks: Sequence[str] = ()) -> None:
        self._mark = mark or secrets.token_hex(16)
        self._lost_marks = lost_marks

    def own(self, row: FileRow) -> FileRow:
        """The same file, to be written from the start under its own name in this lease."""
        name = _own_name(self._mark, row)
        fresh = row._replace(ranges="", suspect=False) if row.ranges or row.suspect else row
        return fresh.under(name)

    def give(self, row: FileRow, *, stays: bool = False) -> FileRow:
        """The same file, to be written from the start under a name that it never had.

        stays: its earlier temporary file could not be removed. The new name has the mark of that one, so that the next
        worker finds it (`earlier_names`).
        """
        earlier = _marks(row) if stays else []
        kept = earlier if len(earlier) < _MOST_MARKS else []
        marks = _BETWEEN.join([self._mark[:_LEASE] + secrets.token_hex(_FILE // 2), *kept])
        name = f"{_folder(row)}/{_PREFIX}{marks}{BEGUN if has_begun(row) else ''}"
        return row._replace(temporary_path=name, ranges="", suspect=False)

    def named_here(self, row: FileRow) -> bool:
        """Whether this slice gave the file its temporary name."""
        path = row.temporary_path
        return path is not None and path.rpartition("/")[2].startswith(_PREFIX + self._mark[:_LEASE])

    def of_lost_workers(self, row: FileRow) -> list[str]:
        """The paths under which lost workers may have written a suspect file, without a record of it."""
        if not row.suspect or row.destination_path is None:
            return []
        return [_own_name(mark, row) for mark in self._lost_marks]


class RealNames:
    """The files that are written under their real names, because the destination refuses their temporary ones."""

    def __init__(self) -> None:
        #: The server has renamed a file of this slice: a refusal says something about one file.
        self.server_renames = False
        self._ids: set[int] = set()
        #: Refusals that are certain to be ones of the temporary name.
        self._refusals = 0

    def add(self, row: FileRow, *, certain: bool) -> None:
        """Note a refusal. certain: of the name; else it becomes one when the file has arrived under its real name."""
        self._ids.add(row.id)
        self._refusals += certain

    def arrived(self, row: FileRow) -> None:
        """This file has arrived under its real name."""
        self._refusals += row.id in self._ids

    def has(self, row: FileRow) -> bool:
        """Whether the file is written under its real name. Some refusals without any success count for all files."""
        return row.id in self._ids or (self._refusals >= _REFUSALS and not self.server_renames)

    def apply(self, row: FileRow) -> FileRow:
        """The file without its temporary name, where it is written under its real one."""
        return row._replace(temporary_path=None) if self.has(row) and not row.ranges else row
