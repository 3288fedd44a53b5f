"""Whether two endpoints are one storage: a folder that is made at the destination and appears at the source proves it.

The protocols do not say it: SFTP has no identity of files, and servers of different kinds report different ones. The
probe writes to the destination only, and only where the servers may share storage (`SessionFactory.may_share_storage`):
one empty folder with a name that no file has, removed at once or at the end of the scan.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault

from .control_sessions import ControlSessions, UnreachableError
from .paths import trimmed
from .ports import SessionFactory

#: Seconds by which two servers may report the time of one file differently: time zones, and listings without seconds.
CLOCKS = 26 * 3600.0
#: Seconds for the removal of a folder after the scan, which may have been canceled.
REMOVAL = 5.0
REMOVAL_TRIES = 2
_SAME = "The source and the destination are the same folder, by two endpoints."
_INSIDE = "The destination lies inside the source"


class StorageProbe:
    """The probe of one slice. Its names are the same in all slices of the task, so that the next one removes them."""

    def __init__(
        self, task_id: str, sessions: SessionFactory, control_sessions: ControlSessions, *, same_endpoint: bool
    ) -> None:
        self._prefix = f".waybill-{hashlib.blake2b(task_id.encode(), digest_size=8).hexdigest()}-"
        self._sessions = sessions
        self._control_sessions = control_sessions
        self._same_endpoint = same_endpoint
        self._possible: bool | None = None
        #: The folders whose removal has begun, and has not succeeded.
        self._left: set[str] = set()

    async def is_possible(self) -> bool:
        """Whether two different endpoints may be one storage. On one endpoint, names and identities are compared."""
        if self._possible is None:
            self._possible = not self._same_endpoint and await self._sessions.may_share_storage()
        return self._possible

    def name(self, item_id: int) -> str:
        """The name of the probe's folder for an item of the task; 0: for the whole task."""
        return f"{self._prefix}{item_id}"

    def is_ours(self, name: str) -> bool:
        """Whether an entry is a folder of this probe."""
        return name.startswith(self._prefix)

    async def mark(self, folder: str, item_id: int = 0) -> bool:
        """Make the probe's folder in this folder of the destination. Returns False where that is refused."""
        path = f"{trimmed(folder)}/{self.name(item_id)}"
        try:
            await self._control_sessions.ask(Side.DESTINATION, lambda session: session.make_directories([path]))
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return False
        return True

    async def unmark(self, folder: str, item_id: int = 0) -> None:
        """Remove it, by another session where one is lost meanwhile. Raises FaultError where it stays."""
        path = f"{trimmed(folder)}/{self.name(item_id)}"
        self._left.add(path)
        await self._remove([path])

    async def remove_left(self) -> None:
        """Remove the folders that stay, as where the server was away before. Raises FaultError."""
        if self._left:
            await self._remove(sorted(self._left))

    async def _remove(self, paths: list[str]) -> None:
        entries = [(path, True) for path in paths]
        fault = make_fault(Kind.TIMEOUT, "The removal of a folder was not answered.", side=Side.DESTINATION)
        with suppress(TimeoutError):
            async with asyncio.timeout(REMOVAL):
                for _ in range(REMOVAL_TRIES):
                    try:
                        await self._control_sessions.ask(Side.DESTINATION, lambda session: session.remove(entries))
                    except FaultError as error:
                        fault = error.fault
                    else:
                        self._left.difference_update(paths)
                        return
        raise FaultError(fault)

    async def appears_in(self, folder: str, item_id: int = 0, *, unsure: bool = False) -> bool:
        """Whether the probe's folder is in this folder of the source. Raises FaultError.

        unsure: the answer for a server that shows a folder of every name.
        """
        path = f"{trimmed(folder)}/{self.name(item_id)}"
        if not await self._is_at_source(path):
            return False
        return unsure if await self._is_at_source(f"{path}-{secrets.token_hex(8)}") else True

    async def _is_at_source(self, path: str) -> bool:
        try:
            await self._control_sessions.stat(Side.SOURCE, path)
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return False
        return True

    async def is_one_folder(self, source: str, destination: str) -> bool:
        """Whether these are one folder. False where the destination refuses the probe."""
        if not await self.mark(destination):
            return False
        try:
            return await self.appears_in(source)
        finally:
            with suppress(FaultError):
                await self.unmark(destination)


class DestinationProbe:
    """The probe of a walk: the destination is marked while the source is listed, so that it is found inside it.

    source: the folder that is walked. destination: where its entries go; None: nowhere.
    """

    def __init__(self, probe: StorageProbe, item_id: int, source: str, destination: str | None) -> None:
        self._probe = probe
        self._item_id = item_id
        self._source = source
        self._destination = destination
        self._tried = False
        self._marked = False

    async def is_possible(self) -> bool:
        """Whether the destination may be the source, or lie inside it."""
        return self._destination is not None and await self._probe.is_possible()

    async def mark_with(self, making: Coroutine[Any, Any, bool]) -> bool:
        """Mark the destination, in one round trip with its making where it exists. Returns the result of that."""
        if not await self.is_possible():
            return await making
        marking = asyncio.create_task(self._mark())
        try:
            made = await making
        finally:
            await marking
        if not self._marked:
            await self._mark()
        return made

    async def check(self, inner: str = "") -> None:
        """Look for the mark in the source, or in a folder inside it ("/b/c").

        Raises FaultError(AMBIGUOUS_PATH) where that folder is the destination.
        """
        folder = self._source + inner
        if self._marked and await self._probe.appears_in(folder, self._item_id):
            raise _refused(f"{_INSIDE}: {folder}" if inner else _SAME)

    async def _mark(self) -> None:
        self._tried = True
        self._marked = await self._probe.mark(self._destination or "", self._item_id)

    def is_ours(self, folder: str, name: str) -> bool:
        """Whether an entry of a source folder is of the probe, and is not copied.

        Raises FaultError(AMBIGUOUS_PATH) where it marks the destination of this walk.
        """
        if not self._probe.is_ours(name):
            return False
        if self._marked and name == self._probe.name(self._item_id):
            same = trimmed(folder) == trimmed(self._source)
            raise _refused(_SAME if same else f"{_INSIDE}: {folder}")
        return True

    async def remove(self) -> None:
        """Remove the mark, also one whose making was interrupted.

        Raises FaultError where it stays: the walk is not done, and the next one removes the mark.
        """
        if self._tried:
            await self._probe.unmark(self._destination or "", self._item_id)
            self._tried = False

    async def end(self) -> None:
        """Remove the mark of a walk that has failed, if that is possible."""
        with suppress(FaultError):
            await self.remove()


def _refused(why: str) -> FaultError:
    return FaultError(Fault(Kind.AMBIGUOUS_PATH, Side.SOURCE, retryable=False, advice=why))


def may_be_one(source: Entry, destination: Entry) -> bool:
    """Whether two files may be one, by their facts alone."""
    if destination.kind != "file" or source.size != destination.size:
        return False
    if source.modified is None or destination.modified is None:
        return True
    return abs((source.modified - destination.modified).total_seconds()) <= CLOCKS
