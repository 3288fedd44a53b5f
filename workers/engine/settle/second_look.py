"""A second look at files that arrived over entries of the destination after a worker of the task was lost.

A file that the destination did not have is written under a name of its own, which no late command of a lost worker
names. An entry of somebody else's server is overwritten in place: a STOR that still waits in a server's socket empties
it although it has arrived since. The fence of the lost worker keeps it from sending more; what the servers had received
by then is found here, before the task may say SUCCEEDED (docs/decisions/settlement.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import FaultedFile, FileRow, SettledFile, Settlement
from workers.engine.control_sessions import UnreachableError
from workers.engine.retry import Retry, unless_changing
from workers.engine.work import SliceContext

#: Files that are looked at together.
BATCH = 500
#: The event of files that are sent again.
CHANGED = "CHANGED_AFTER_ARRIVAL"
#: Names that the event lists.
MOST_NAMES = 20
REPEATED = "the destination shows another size or checksum each time after the file has arrived"


class SecondLook:
    """reopened: called when files were made pending again."""

    def __init__(self, work: SliceContext, reopened: Callable[[], None]) -> None:
        self._work = work
        self._reopened = reopened
        self._done = not work.spec.suspect_up_to or work.spec.is_delete or work.spec.renames_all
        #: The id of the last file that was looked at.
        self._after = 0
        #: Ids of the files that this slice has sent again.
        self._again: set[int] = set()

    async def is_done(self) -> bool:
        """Look at all of them. False: some are sent again, or the destination cannot be asked now."""
        if self._done or self._work.is_blocked():
            return self._done
        try:
            again = await self._look()
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
            return False
        self._done = not again
        return self._done

    async def _look(self) -> bool:
        """Whether files are sent again. Raises UnreachableError."""
        self._after = 0
        again = False
        if (await self._work.control_sessions.session(Side.DESTINATION)).replaces:
            return False
        while arrived := await self._work.store.arrived(self._after, BATCH):
            paths = [one.file.destination_path or "" for one in arrived]
            found = await self._work.control_sessions.facts(Side.DESTINATION, paths)
            changed = [one for one, entry in zip(arrived, found, strict=True) if not await self._is_whole(one, entry)]
            if changed:
                await self._send_again(changed)
                again = True
            self._after = arrived[-1].file.id
        return again

    async def _is_whole(self, arrived: SettledFile, entry: Entry | Fault) -> bool:
        """Whether the entry is the file that has arrived, as far as the server shows."""
        if isinstance(entry, Fault):
            return entry.kind is not Kind.FILE_NOT_FOUND
        if entry.size != arrived.file.size:
            return False
        checksum = arrived.checksum
        if checksum is None or not checksum.value:
            return True
        path = arrived.file.destination_path or ""
        try:
            now = await self._work.control_sessions.ask(
                Side.DESTINATION, lambda session: session.checksum(path, checksum.algorithm)
            )
        except UnreachableError:
            raise
        except FaultError as error:
            return error.fault.kind is Kind.UNSUPPORTED
        return now.lower() == checksum.value

    async def _send_again(self, changed: Sequence[SettledFile]) -> None:
        await self._work.store.send_again([one.file for one in changed])
        text = Sentence("Files that had arrived were changed by a late command of a lost worker: they are sent again.")
        names = [one.file.destination_path for one in changed[:MOST_NAMES]]
        await self._work.store.event(CHANGED, text, {"files": len(changed), "paths": names})
        await self._fault_repeated([one.file for one in changed if one.file.id in self._again])
        self._again.update(one.file.id for one in changed)
        self._reopened()

    async def _fault_repeated(self, files: Sequence[FileRow]) -> None:
        """A late command changes a file once: one that is another one after each arrival has a fault of its own."""
        changed = make_fault(Kind.FILE_SIZE_CHANGED, REPEATED, side=Side.DESTINATION)
        faulted = []
        for file in files:
            fault = unless_changing(changed, file.attempts, file.last_fault)
            decision = self._work.decide(fault, file.attempts)
            faulted.append(FaultedFile(file, fault, decision.at if isinstance(decision, Retry) else None))
        if faulted:
            await self._work.store.write(Settlement(faulted=faulted))
