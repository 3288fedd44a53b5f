"""delete_destination_extra: what the destination has and the source has not is removed, after all else has succeeded.

Both sides are walked through together once all files are settled, so that nothing has to be remembered of them: when a
worker dies in the middle, the next one walks again. Of a folder nothing is removed before both listings were complete.
A name that the source has, whatever it is there, stays; so do names that filter_rules exclude (as rsync has it), what
this task wrote, even if the source has lost it since, and folders of other items. Symlinks at the destination are
removed, and neither followed nor looked through.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side

from .bounds import Share, size_of
from .desk import UnreachableError
from .paths import is_a_name
from .ports import Counts
from .retry import Retry, worse
from .selection import Links, Selection
from .survey import RefusedError, Survey
from .uproot import LEAVES, Uprooter, is_folder, next_wave
from .walk import MAX_DEPTH
from .work import PATIENCE, Finished, Released, Work

SKIPPED = "DELETE_DESTINATION_EXTRA_SKIPPED"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A folder on both sides, without a slash at the end."""

    source: str
    destination: str
    depth: int = 0


class _Names:
    """What a folder of the source holds: 8 octets a name, since there may be millions of them.

    They are told apart by hashes. Two names of one hash would only make an extra stay.
    """

    def __init__(self) -> None:
        #: Names of folders that the scan went through.
        self.folders: set[str] = set()
        self._hashes = array("q")

    def add(self, names: Iterable[str]) -> None:
        self._hashes.extend(map(hash, names))

    def close(self) -> None:
        """All are there: from now on they are looked for."""
        self._hashes = array("q", sorted(self._hashes))

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self._hashes, hash(name))
        return at < len(self._hashes) and self._hashes[at] == hash(name)


class Extras:
    """The last part of a TRANSFER that asks for it."""

    def __init__(self, work: Work) -> None:
        options = work.spec.options
        self._work = work
        self._over = not options.get("delete_destination_extra")
        self._part: asyncio.Task[None] | None = None
        self._fault: Fault | None = None
        self._survey = Survey(work)
        #: For the folders of a walk that wait for their turn.
        self._memory = Share(work.desk.memory)
        self._selection = Selection.of(options)
        ruled = bool(options.get("filter_rules"))
        self._uprooter = Uprooter(
            work, Side.DESTINATION, spares=self._stays, knows=work.store.known, unlisted=not ruled
        )

    async def over(self, counts: Counts) -> bool:
        """Whether nothing is left to do. If something is, it is begun, and `work.wake` is set when to ask again."""
        if self._over or self._part:
            return self._over
        if counts.files_failed or counts.skipped_errors:
            await self._skip("Not all of the source could be read and moved: what is missing there is not known.")
        elif self._work.seconds_blocked() > PATIENCE:
            self._work.end(Released(self._work.endpoints.until or self._work.clock.now()))
        elif not self._work.is_blocked():
            self._part = self._work.spawn(self._run())
        return self._over

    async def last(self) -> None:
        """Wait for a walk that is under way: another slice would have to begin it anew, and might never see its end."""
        if self._part:
            await asyncio.wait([self._part])

    async def _run(self) -> None:
        self._begin()
        try:
            await self._survey.make()
            for destination, source in self._survey.roots.items():
                await self._walk(_Pair(source, destination))
            await self._end(self._fault or self._uprooter.fault)
        except RefusedError as error:
            await self._skip(str(error))
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
        except FaultError as error:
            await self._end(error.fault)
        finally:
            self._part = None
            self._work.wake.set()
        if self._over:
            self._work.end(Finished())  # now, and not when somebody asks again: the slice may be over by then

    def _begin(self) -> None:
        self._fault = self._uprooter.fault = None
        self._survey = Survey(self._work)

    # ---- how it ends

    async def _end(self, fault: Fault | None) -> None:
        """All is done; or it is tried again from the beginning, as long as that may help."""
        if fault is None:
            await self._tell()
            self._over = True
        elif isinstance(decision := self._work.decide(fault, self._work.endpoints.failures), Retry):
            self._work.connection_failed()
            text = f"{fault.advice} Then extras at the destination are looked for again.".lstrip()
            at = self._work.endpoints.until or decision.at
            await self._work.in_trouble(replace(fault, advice=text), at, lanes=True)
        elif not self._work.ended.done():
            await self._tell()
            await self._skip(f"Some of it cannot be deleted: {fault.advice or fault.raw}")

    async def _skip(self, why: str) -> None:
        self._over = True
        text = "What the source does not have was not deleted at the destination."
        await self._work.store.event(SKIPPED, text, why)

    async def _tell(self) -> None:
        done = self._uprooter
        if not done.removed:
            return
        text = (
            f"Deleted at the destination, because the source does not have them: {done.files} files, "
            f"{done.folders} folders, {done.symlinks} symbolic links."
        )
        details = {"files": done.files, "directories": done.folders, "symlinks": done.symlinks, "paths": done.names}
        await self._work.store.event("PROGRESS", text, details)

    # ---- the walk

    async def _walk(self, root: _Pair) -> None:
        stack = [root]
        try:
            while stack:
                await next_wave(stack, self._visit)
        finally:
            self._memory.close()

    async def _visit(self, pair: _Pair) -> Sequence[_Pair]:
        """Remove the extras of this folder; the folders in it that both sides have."""
        self._memory.free(size_of(pair.source, pair.destination))
        memory = Share(self._work.desk.memory)
        try:
            names = await self._names(pair, memory)
            inner, extras, more = await self._compare(pair, names)
            await self._uprooter.remove(pair.destination, extras)
            while more:
                before = self._uprooter.removed
                _, extras, more = await self._compare(pair, names)
                await self._uprooter.remove(pair.destination, extras)
                more = more and self._uprooter.removed > before
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            if error.fault.kind is not Kind.FILE_NOT_FOUND or error.fault.side is not Side.DESTINATION:
                self._fault = worse(self._fault, error.fault)
            return ()
        finally:
            memory.close()
        for one in inner:
            self._memory.take(size_of(one.source, one.destination))
        return inner

    async def _names(self, pair: _Pair, memory: Share) -> _Names:
        """What the source has."""
        names = _Names()
        async for entries in self._work.desk.listing(Side.SOURCE, pair.source or "/"):
            names.add(entry.name for entry in entries)
            folders = [entry.name for entry in entries if self._is_walked(entry)]
            memory.take(8 * len(entries) + sum(size_of(name) for name in folders))
            names.folders.update(folders)
        names.close()
        return names

    def _is_walked(self, entry: Entry) -> bool:
        """Whether the scan went through this folder of the source."""
        walked = entry.is_directory if self._selection.links is Links.COPY else is_folder(entry)
        return walked and self._selection.includes(entry.name, folder=True)

    async def _compare(self, pair: _Pair, names: _Names) -> tuple[list[_Pair], list[Entry], bool]:
        """Folders of both sides, extras, and whether there were more of these than could be remembered."""
        inner: list[_Pair] = []
        extras: list[Entry] = []
        more = False
        async for entries in self._work.desk.listing(Side.DESTINATION, pair.destination or "/"):
            for entry in entries:
                name = entry.name
                if name in names.folders:
                    if is_folder(entry) and entry.unique not in self._survey.shunned and pair.depth < MAX_DEPTH:
                        inner.append(_Pair(f"{pair.source}/{name}", f"{pair.destination}/{name}", pair.depth + 1))
                elif name not in names and is_a_name(name) and not self._stays(entry):
                    if len(extras) < LEAVES:
                        extras.append(entry)
                    else:
                        more = True
        return inner, extras, more

    def _stays(self, entry: Entry) -> bool:
        folder = is_folder(entry)
        shunned = folder and entry.unique in self._survey.shunned
        return shunned or not self._selection.includes(entry.name, folder=folder)
