"""Symlinks to folders, on servers whose facts do not distinguish them from folders.

RFC 3659 has no fact for symlinks; UNIX.slink belongs to the toolkit. No request that only reads finds such a link: its
facts are those of its target, and a server may resolve ".." by the text of the path. But DELE removes a link and is
refused for a folder, each for certain. So before a folder that is to be removed is listed, DELE is sent for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from endpoints.gridftp.faults import Fault, FaultError, Kind, make_fault
from endpoints.gridftp.requests.confirmed_removals import STILL_THERE
from workers.engine.ports import Session

UNCLEAR = "The server does not say whether this is a folder or a symbolic link to one, so it is left alone."


async def unlink_hidden(session: Session, folders: Sequence[str]) -> dict[str, Fault | None]:
    """Return the folders that must not be listed, among these that are to be removed.

    None if it was a symlink, or was missing; it is gone now. A fault: nothing shows what it is, because the answer
    was not that it is a folder, or because it is still there. Empty where the server itself distinguishes links.
    """
    if session.tells_links or not folders:
        return {}
    faults = await session.remove([(path, False) for path in folders])
    unsure = {
        path: fault or make_fault(Kind.ENDPOINT_ERROR, STILL_THERE, retryable=False)
        for path, fault in zip(folders, faults, strict=True)
        if fault is None or fault.kind is not Kind.IS_A_DIRECTORY
    }
    looks = (_unless_missing(session, path, fault) for path, fault in unsure.items())
    return dict(zip(unsure, await asyncio.gather(*looks), strict=True))


async def _unless_missing(session: Session, path: str, fault: Fault) -> Fault | None:
    """None for a missing path. Some servers say "not found" to a DELE of a folder, and some confirm any DELE."""
    if fault.kind not in (Kind.FILE_NOT_FOUND, Kind.ENDPOINT_ERROR):
        return fault
    try:
        await session.stat(path)
    except FaultError as error:
        if error.fault.kind is Kind.FILE_NOT_FOUND:
            return None
        raise
    kind = Kind.UNKNOWN if fault.kind is Kind.FILE_NOT_FOUND else fault.kind
    return replace(fault, kind=kind, advice=UNCLEAR)
