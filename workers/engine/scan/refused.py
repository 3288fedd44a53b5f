"""Files of which it can be known that they will not arrive, before folders are made for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from transferapi.tasks.records import FoundFile, ItemRow
from workers.engine.control_sessions import ControlSessions
from workers.engine.folders import Folders
from workers.engine.paths import parent
from workers.engine.settle.checksums import common_algorithm

#: An item that is a file, its row, and the facts of its source.
FoundItem = tuple[ItemRow, FoundFile, Entry]


async def refused(sessions: ControlSessions, folders: Folders, found: Sequence[FoundItem]) -> dict[int, Fault]:
    """The faults, by item, of files whose folder is missing, and that cannot be read or verified.

    Of the files of one missing folder the first that can be read suffices: the folder is made for it, and the others
    meet their faults when they are moved. Raises UnreachableError.
    """
    faults: dict[int, Fault] = {}
    for item, one, _ in found:
        if not folders.is_known(_folder(one)) and (fault := await _unverifiable(sessions, one)):
            faults[item.id] = fault
    by_folder: dict[str, list[FoundItem]] = {}
    for each in found:
        if each[0].id not in faults and not folders.is_known(_folder(each[1])):
            by_folder.setdefault(_folder(each[1]), []).append(each)
    for group in by_folder.values():
        faults |= await _unreadable(sessions, group)
    return faults


def _folder(one: FoundFile) -> str:
    return parent(one.destination_path or "")


async def _unverifiable(sessions: ControlSessions, one: FoundFile) -> Fault | None:
    """The fault where the servers cannot make the checksum that the user gave."""
    if one.checksum is None or not one.checksum.value:
        return None
    source, destination = await sessions.session(Side.SOURCE), await sessions.session(Side.DESTINATION)
    try:
        common_algorithm(source.algorithms, destination.algorithms, one.checksum.algorithm)
    except FaultError as error:
        return error.fault
    return None


async def _unreadable(sessions: ControlSessions, group: Sequence[FoundItem]) -> dict[int, Fault]:
    """The faults of these files, if none of them may be read; else nothing."""
    first = await _read_fault(sessions, group[0])
    if first is None:
        return {}
    faults = [first, *await asyncio.gather(*(_read_fault(sessions, each) for each in group[1:]))]
    if not all(faults):
        return {}
    return {item.id: fault for (item, _, _), fault in zip(group, faults, strict=True) if fault}


async def _read_fault(sessions: ControlSessions, each: FoundItem) -> Fault | None:
    """The fault of a file that may not be read. Any other fault says too little: the transfer will show it."""
    _, one, entry = each
    if one.link_target is not None or _all_may_read(entry):
        return None
    answer = await sessions.answer(Side.SOURCE, lambda session: session.check_readable(one.source_path))
    return answer if answer is not None and answer.kind is Kind.PERMISSION_DENIED else None


def _all_may_read(entry: Entry) -> bool:
    """Whether the mode of the file lets everybody read it: one round trip less."""
    return bool(entry.mode) and int(entry.mode, 8) & 0o444 == 0o444
