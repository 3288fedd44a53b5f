"""Refused removals: what a DELE has met, on servers that name no cause, and links that no listing of facts shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.listing import Allowance, blocks_on_data

from .list_lines import read_list_line
from .plain_ftp import PORTION

#: Lines of a folder that appears empty and is not.
MAX_HIDDEN = 100_000


def is_not_unlinked(fault: Fault) -> bool:
    """Whether a DELE was refused because of EINVAL, which unlink(2) never gives: so Pure-FTPd refuses what is neither a
    file nor a symlink."""
    return fault.kind is Kind.UNKNOWN and fault.raw.lower().rstrip(" .").endswith("invalid argument")


async def explained(stat: Callable[[str], Awaitable[Entry]], fault: Fault, path: str, *, named: bool) -> Fault:
    """A refused removal: of an unknown cause it is asked whether the entry is there.

    named: the server names causes; vsftpd gives none. Raises FaultError for a lost connection.
    """
    if fault.kind is not Kind.UNKNOWN:
        return fault
    try:
        there = await stat(path)
    except FaultError as error:
        if error.fault.scope is not FaultScope.FILE:
            raise
        kept = named and error.fault.kind is not Kind.FILE_NOT_FOUND
        return fault if kept else make_fault(error.fault.kind, fault.raw)
    if named and not is_not_unlinked(fault):
        return fault
    if not there.is_directory:
        return make_fault(Kind.PERMISSION_DENIED, fault.raw)
    return make_fault(Kind.IS_A_DIRECTORY if is_not_unlinked(fault) else Kind.DIRECTORY_NOT_EMPTY, fault.raw)


async def find_folders(
    refused: Sequence[tuple[bytes, Fault | None]], connection: ControlConnection, lock: asyncio.Lock
) -> list[Fault | None]:
    """The outcomes of DELE for these paths: IS_A_DIRECTORY where one was refused without a cause, and it is a folder.

    Its facts may be those of the target of a symlink: only its line in the listing of its parent distinguishes both.
    lock: of the data connection. Raises FaultError when the connection is lost.
    """
    outcome = [fault for _, fault in refused]
    unsure: dict[bytes, dict[bytes, int]] = {}
    for index, (path, fault) in enumerate(refused):
        if fault and fault.kind is Kind.DIRECTORY_NOT_EMPTY:
            above, _, name = path.rstrip(b"/").rpartition(b"/")
            unsure.setdefault(above or b"/", {})[name] = index
    for above, names in unsure.items():
        async with lock:
            folders = await _folders_among(frozenset(names), connection, above)
        for name in folders:
            fault = outcome[names[name]]
            outcome[names[name]] = fault and make_fault(Kind.IS_A_DIRECTORY, fault.raw)
    return outcome


async def _folders_among(names: frozenset[bytes], connection: ControlConnection, above: bytes) -> set[bytes]:
    """Those of the names in this folder that `ls -l` shows as folders, and not as symlinks."""
    found: set[bytes] = set()
    try:
        async with aclosing(_names("dir", connection, above, Allowance())) as batches:
            async for batch in batches:
                found |= names.intersection(batch)
    except FaultError as error:
        if error.fault.scope is not FaultScope.FILE:
            raise
    return found


async def remove_with_links(folder: bytes, connection: ControlConnection, lock: asyncio.Lock) -> None:
    """Remove a folder with its symlinks: ProFTPD shows those without a target in `ls -l`, and not in MLSD.

    RMD fails because of them. Raises FaultError.
    """
    found: list[bytes] = []
    async with lock, aclosing(_names("link", connection, folder, Allowance(lines=MAX_HIDDEN))) as batches:
        async for batch in batches:
            found += batch
    for start in range(0, len(found), PORTION):
        links = (folder.rstrip(b"/") + b"/" + name for name in found[start : start + PORTION])
        await asyncio.gather(*(connection.ask("DELE", link) for link in links))
    await connection.ask("RMD", folder)


async def _names(
    kind: str, connection: ControlConnection, folder: bytes, allowance: Allowance
) -> AsyncGenerator[Sequence[bytes], None]:
    async with aclosing(blocks_on_data(connection, b"-a " + folder, allowance, verb="LIST")) as blocks:
        async for lines in blocks:
            entries = [entry for line in lines if (entry := read_list_line(line)) is not None and entry.kind == kind]
            yield [entry.name.encode("utf-8", "surrogateescape") for entry in entries]
