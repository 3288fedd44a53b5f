"""Symlinks that are kept: found as links, and made at the destination with the same target."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from transferapi.tasks.records import SYMLINK, FileRow, FoundFile, ItemRow
from workers.engine.control_sessions import UnreachableError
from workers.engine.paths import trimmed
from workers.engine.ports import Session
from workers.engine.work import SliceContext

#: Links made in parallel, and tries for one when the connection is lost.
BATCH = 200
TRIES = 3
#: Tries for a link whose target is missing, on a server that refuses such links.
MAX_ATTEMPTS = 5


def relative(target: str, link: str, root: str) -> str:
    """The text of the link at the path `link` that leads to `target`; relative if it stays inside the folder `root`.

    For servers that report the full path of a link's target instead of its text: a link inside the copied tree then
    stays inside the copy. Paths are absolute, without links in them.
    """
    if not (target == root or target.startswith(f"{root}/")):
        return target
    return posixpath.relpath(target, posixpath.dirname(link))


def found_link(source_path: str, destination_path: str, entry: Entry) -> FoundFile:
    """The row of a symlink. Raises FaultError(INVALID_SYMLINK) when the server does not report its target."""
    if not entry.link_target:
        why = "The server does not report the target of this symbolic link."
        raise FaultError(Fault(Kind.INVALID_SYMLINK, Side.SOURCE, retryable=False, advice=why, raw=source_path))
    return FoundFile(source_path, destination_path, 0, None, SYMLINK, link_target=entry.link_target)


def found_link_item(item: ItemRow, entry: Entry) -> FoundFile:
    """The row of an item that the user calls a symlink. Raises FaultError(NOT_A_SYMLINK, INVALID_SYMLINK)."""
    if not entry.is_link:
        why = "This is not a symbolic link; to transfer it, name it in an item of the usual type."
        raise FaultError(Fault(Kind.NOT_A_SYMLINK, Side.SOURCE, retryable=False, advice=why, raw=item.source_path))
    return found_link(trimmed(item.source_path), trimmed(item.destination_path or ""), entry)


async def make_links(
    work: SliceContext,
    rows: Sequence[FileRow],
    made: Callable[[FileRow], None],
    faulted: Callable[[FileRow, Fault], None],
) -> None:
    """Make these links at the destination, and call `made` or `faulted` for each."""
    for start in range(0, len(rows), BATCH):
        await _make_batch(work, rows[start : start + BATCH], made, faulted)


async def _make_batch(
    work: SliceContext,
    rows: Sequence[FileRow],
    made: Callable[[FileRow], None],
    faulted: Callable[[FileRow, Fault], None],
) -> None:
    for tries_left in reversed(range(TRIES)):
        outcome = await asyncio.gather(*(_make(work, row) for row in rows))
        lost = []
        for row, fault in zip(rows, outcome, strict=True):
            if fault is None:
                made(row)
            elif fault.scope is FaultScope.FILE or not tries_left:
                faulted(row, fault)
            else:
                lost.append(row)
        rows = lost


async def _make(work: SliceContext, row: FileRow) -> Fault | None:
    try:
        await work.control_sessions.ask(Side.DESTINATION, lambda session: _make_one(session, row))
    except UnreachableError as error:
        await work.unreachable(error.fault)
        return error.fault
    except FaultError as error:
        return error.fault
    return None


async def _make_one(session: Session, row: FileRow) -> None:
    """Make a link; it replaces another link, but not a file or a folder. Raises FaultError."""
    path, target = row.destination_path or "", row.link_target or ""
    try:
        await session.make_symlink(target, path)
    except FaultError as error:
        if error.fault.kind is Kind.FILE_NOT_FOUND:
            raise FaultError(_dangling(error.fault, row)) from None
        if error.fault.kind is not Kind.PATH_EXISTS:
            raise
    else:
        return
    await _remove_link(session, path)
    await session.make_symlink(target, path)


def _dangling(fault: Fault, row: FileRow) -> Fault:
    """The fault of a server that refuses links without a target; the target may arrive later."""
    advice = "This endpoint makes symbolic links only to what is there, and nothing is where this one leads."
    return replace(fault, kind=Kind.INVALID_SYMLINK, retryable=row.attempts < MAX_ATTEMPTS, advice=advice)


async def _remove_link(session: Session, path: str) -> None:
    """Remove a link. Raises FaultError(PATH_EXISTS) for anything else. An existing path without facts is a link."""
    try:
        there = await session.stat(path)
    except FaultError as error:
        if error.fault.kind is not Kind.FILE_NOT_FOUND:
            raise
    else:
        if not there.is_link:
            why = "At the path of this symbolic link is a file or folder; remove it, or transfer to another path."
            raise FaultError(Fault(Kind.PATH_EXISTS, Side.DESTINATION, retryable=False, advice=why, raw=path))
    (fault,) = await session.remove([(path, False)])
    if fault is not None:
        raise FaultError(fault)
