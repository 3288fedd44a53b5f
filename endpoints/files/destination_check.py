"""Whether files could be written to a folder: what its server says before a transfer is submitted.

Raises the registry's errors, PathNotPermittedError, OperationPausedError, and the errors of `sessions`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from endpoints import concurrency_limits, operations
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.pause_rules import PausableOperation
from identity.models import User

from .sessions import FileSession

_FACTS = "Type;Size;Perm;"
#: Folders above a missing one that are looked at.
MAX_LEVELS = 20


@dataclass(frozen=True, slots=True)
class DestinationStatus:
    """A folder as its server describes it; None: the server does not say.

    exists: a missing folder is made by the transfer; the other facts are then those of the folder above it.
    free: octets.
    """

    path: str
    exists: bool
    writable: bool | None
    free: int | None


def look(user: User, ref: str, path: str) -> DestinationStatus:
    """The state of a folder as the destination of a transfer. Raises FaultError where it is no folder."""
    granted = operations.access_for(user, ref, PausableOperation.UPLOAD)
    folder = path.rstrip("/") + "/"
    granted.check(folder, write=True)
    limits = (concurrency_limits.OPERATIONS,)
    with FileSession(user, granted, folder, write=True, limits=limits) as session:
        return session.run(_look(session, folder))


async def _look(session: FileSession, folder: str) -> DestinationStatus:
    if isinstance(session.session, GridFTPSession):
        with suppress(FaultError):
            await session.session.select_facts(_FACTS)
    place, exists = session.path.rstrip("/") or "/", True
    entry = await _facts(session, place)
    while entry is None:
        exists, place = False, place.rpartition("/")[0] or "/"
        entry = await _facts(session, place) if place.count("/") < MAX_LEVELS else Entry("", "dir")
    writable = bool(set(entry.perm.lower()) & {"c", "m"}) if entry.perm else None
    return DestinationStatus(folder, exists, writable, await session.session.free_space(place))


async def _facts(session: FileSession, place: str) -> Entry | None:
    """None if there is no such folder. Raises FaultError, also for what is no folder."""
    try:
        entry = await session.session.stat(place)
    except FaultError as error:
        if error.fault.kind is Kind.FILE_NOT_FOUND and place not in ("/", "/~"):
            return None
        raise
    if not entry.is_directory:
        raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, place))
    return entry
