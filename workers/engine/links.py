"""Symlinks that are kept: found as links, and made anew at the destination with the same text."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side

from .desk import UnreachableError
from .paths import trimmed
from .ports import SYMLINK, FileRow, Found, ItemRow, Session
from .work import Work

#: Links made side by side, and times that one is tried when the connection is lost meanwhile.
BATCH = 200
TRIES = 3
#: Times that a server is asked for a link to something that it does not have.
MAX_ATTEMPTS = 5


def is_link(entry: Entry) -> bool:
    """Whether this is a symlink, be it one that leads nowhere."""
    return entry.link_target is not None or entry.kind == "link"


def relative(target: str, link: str, root: str) -> str:
    """What the link at the path `link` says to lead to `target`; relative within the folder `root`.

    For servers that tell the full path of where a link leads, and not what it says: a link that stays in the tree that
    is copied stays in the copy. Paths are absolute, without links in them.
    """
    if not (target == root or target.startswith(f"{root}/")):
        return target
    return posixpath.relpath(target, posixpath.dirname(link))


def found_link(source_path: str, destination_path: str, entry: Entry) -> Found:
    """The row of a symlink. Raises FaultError(INVALID_SYMLINK) when the server does not tell where it leads."""
    if not entry.link_target:
        why = "The server does not tell where this symbolic link leads."
        raise FaultError(Fault(Kind.INVALID_SYMLINK, Side.SOURCE, retryable=False, advice=why, raw=source_path))
    return Found(source_path, destination_path, 0, None, SYMLINK, link_target=entry.link_target)


def found_link_item(item: ItemRow, entry: Entry) -> Found:
    """The row of an item that the user says is a symlink. Raises FaultError(NOT_A_SYMLINK, INVALID_SYMLINK)."""
    if not is_link(entry):
        why = "This is no symbolic link; to transfer what it is, name it in an item of the usual type."
        raise FaultError(Fault(Kind.NOT_A_SYMLINK, Side.SOURCE, retryable=False, advice=why, raw=item.source_path))
    return found_link(trimmed(item.source_path), trimmed(item.destination_path or ""), entry)


async def resolves_links(session: Session) -> bool:
    """`Session.resolves_links`, to be asked at a desk."""
    return session.resolves_links


async def make_links(
    work: Work, rows: Sequence[FileRow], made: Callable[[FileRow], None], faulted: Callable[[FileRow, Fault], None]
) -> None:
    """Make these links at the destination and tell of each what became of it."""
    for start in range(0, len(rows), BATCH):
        await _make_batch(work, rows[start : start + BATCH], made, faulted)


async def _make_batch(
    work: Work, rows: Sequence[FileRow], made: Callable[[FileRow], None], faulted: Callable[[FileRow, Fault], None]
) -> None:
    for tries_left in reversed(range(TRIES)):
        outcome = await asyncio.gather(*(_make(work, row) for row in rows))
        lost = []
        for row, fault in zip(rows, outcome, strict=True):
            if fault is None:
                made(row)
            elif fault.scope is Scope.FILE or not tries_left:
                faulted(row, fault)
            else:
                lost.append(row)
        rows = lost


async def _make(work: Work, row: FileRow) -> Fault | None:
    try:
        await work.desk.ask(Side.DESTINATION, lambda session: _make_one(session, row))
    except UnreachableError as error:
        await work.unreachable(error.fault)
        return error.fault
    except FaultError as error:
        return error.fault
    return None


async def _make_one(session: Session, row: FileRow) -> None:
    """A link that leads elsewhere gives way to this one; a file or a folder does not. Raises FaultError."""
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
    """This server makes links only to what is there; that may be on its way."""
    advice = "This endpoint makes symbolic links only to what is there, and nothing is where this one leads."
    return replace(fault, kind=Kind.INVALID_SYMLINK, retryable=row.attempts < MAX_ATTEMPTS, advice=advice)


async def _remove_link(session: Session, path: str) -> None:
    """Raises FaultError(PATH_EXISTS) when it is none. What exists and is not found is one that leads nowhere."""
    try:
        there = await session.stat(path)
    except FaultError as error:
        if error.fault.kind is not Kind.FILE_NOT_FOUND:
            raise
    else:
        if not is_link(there):
            why = "Something that is no symbolic link is in the way of one; remove it, or transfer to another place."
            raise FaultError(Fault(Kind.PATH_EXISTS, Side.DESTINATION, retryable=False, advice=why, raw=path))
    (fault,) = await session.remove([(path, False)])
    if fault is not None:
        raise FaultError(fault)
