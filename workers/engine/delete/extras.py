"""delete_destination_extra: removes files that only the destination has, after everything else has succeeded.

Both sides are walked together after all files are settled, so that nothing must be remembered: when a worker dies, the
next one walks again. Nothing in a folder is removed before both listings were complete. These stay: a name that the
source has, whatever it is there; a name that some file systems take for it (`patterns.folded`), with everything in it,
because there it is the copy that this task wrote; names that filter_rules exclude (as rsync does it); files that this
task wrote, even if the source has lost them since; and folders of other items. Symlinks at the destination are removed,
not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from endpoints.gridftp.patterns import folded
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import ANSWER, CONFIRMED, REFUSED, TaskCounts
from workers.engine.bounds import TaskShare, size_of
from workers.engine.control_sessions import UnreachableError
from workers.engine.paths import is_a_name
from workers.engine.retry import Retry, worse
from workers.engine.scan.selection import Links, NameSelection
from workers.engine.scan.walk import MAX_DEPTH
from workers.engine.work import LONGEST_WAIT, Finished, Released, SliceContext, Unconfirmed

from .deletion_scope import DeletionRefusedError, DeletionScope, NameHashes
from .extra_counter import ExtraCounter
from .tree_remover import NAMES, EntriesToRemove, RemovalLimitError, TreeRemover, is_folder, next_wave

SKIPPED = "DELETE_DESTINATION_EXTRA_SKIPPED"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A folder on both sides, without a trailing slash."""

    source: str
    destination: str
    depth: int = 0


class _SourceNames:
    """The names in a folder of the source: 16 octets for each, because there may be millions of them."""

    def __init__(self) -> None:
        #: Names of folders that the scan walked through.
        self.folders: set[str] = set()
        self._names = NameHashes()
        self._folded = NameHashes()

    def add(self, names: Sequence[str]) -> None:
        self._names.add(names)
        self._folded.add(map(folded, names))

    def close(self) -> None:
        """All names were added, and lookups begin."""
        self._names.close()
        self._folded.close()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def has_folded(self, name: str) -> bool:
        """Whether some file systems take this name for one of the source's."""
        return folded(name) in self._folded


class _Kept:
    """Counts and names the entries that stay because their names fold to others."""

    def __init__(self) -> None:
        self.count = 0
        self.paths: list[str] = []

    def add(self, path: str) -> None:
        self.count += 1
        if len(self.paths) < NAMES:
            self.paths.append(path)


_Visit = Callable[[_Pair, _SourceNames], Awaitable[Sequence[_Pair]]]


class Extras:
    """The last part of a TRANSFER that asks for it."""

    def __init__(self, work: SliceContext) -> None:
        options = work.spec.options
        self._work = work
        self._done = not options.get("delete_destination_extra")
        limit = options.get("confirm_deletion_above")
        #: Percent of the destination that may be deleted before a person has confirmed it. None: all.
        self._limit = limit if isinstance(limit, int) and options.get(ANSWER) != CONFIRMED else None
        self._refused = options.get(ANSWER) == REFUSED
        self._part: asyncio.Task[None] | None = None
        self._fault: Fault | None = None
        self._deletion_scope = DeletionScope(work)
        #: The memory of the folders of a walk that wait to be visited.
        self._memory = TaskShare(work.control_sessions.memory)
        self._kept = _Kept()
        #: Of the count before the deletion: the entries at the destination.
        self._total = 0
        self._selection = NameSelection.of(options)
        ruled = bool(options.get("filter_rules"))
        self._tree_remover = TreeRemover(
            work, Side.DESTINATION, keeps=self._stays, find_known=self._known, unlisted=not ruled
        )

    async def is_done(self, counts: TaskCounts) -> bool:
        """Return whether nothing is left to do. Else start it; it calls `more_to_do` at its end."""
        if self._done or self._part or self._work.ended.done():
            return self._done
        if self._refused:
            await self._skip("The owner of the task has refused the deletion.")
        elif counts.files_failed or counts.skipped_errors:
            await self._skip(
                "Not all of the source could be read and transferred, so it is not known which files are extra."
            )
        elif self._work.seconds_blocked() > LONGEST_WAIT:
            self._work.end(Released(self._work.endpoints.until or self._work.clock.now()))
        elif not self._work.is_blocked():
            self._part = self._work.spawn(self._run())
        return self._done

    async def drain(self) -> None:
        """Wait for a running walk: another slice would have to begin it again, and might never complete it."""
        if self._part:
            await asyncio.wait([self._part])

    async def _run(self) -> None:
        self._begin()
        try:
            await self._deletion_scope.make()
            if await self._is_allowed():
                await self._walk(self._visit)
                await self._end(self._fault or self._tree_remover.fault)
        except RemovalLimitError:
            # The source has lost files since they were counted.
            await self._report()
            self._work.end(Unconfirmed(self._tree_remover.sent + 1, self._total))
        except DeletionRefusedError as error:
            await self._skip(str(error))
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
        except FaultError as error:
            await self._end(error.fault)
        finally:
            self._part = None
            self._work.more_to_do()
        if self._done:
            self._work.end(Finished())  # at once: the slice may have ended before it asks again

    def _begin(self) -> None:
        self._fault = self._tree_remover.fault = None
        self._deletion_scope = DeletionScope(self._work)
        self._kept = _Kept()

    async def _is_allowed(self) -> bool:
        """Whether the deletion may begin; else the task waits for a person, and nothing was deleted."""
        if self._limit is None:
            return True
        self._counter = counter = ExtraCounter(self._work, self._stays, self._known)
        await self._walk(self._count)
        self._fault = None  # the deletion meets it again
        self._total = counter.total
        if counter.is_above(self._limit):
            self._work.end(Unconfirmed(counter.extra, counter.total))
            return False
        self._tree_remover.allow(counter.total * self._limit // 100)
        return True

    # ---- how it ends

    async def _end(self, fault: Fault | None) -> None:
        """Finish, or try again from the beginning as long as that may help."""
        if fault is None:
            await self._report()
            self._done = True
        elif isinstance(decision := self._work.decide(fault, self._work.endpoints.failures), Retry):
            self._work.connection_failed()
            text = f"{fault.advice} Then the search for extra files at the destination begins again.".lstrip()
            at = self._work.endpoints.until or decision.at
            await self._work.report_trouble(replace(fault, advice=text), at, lanes=True)
        elif not self._work.ended.done():
            await self._report()
            await self._skip(f"Some extra files cannot be deleted: {fault.advice or fault.raw}")

    async def _skip(self, why: str) -> None:
        text = Sentence("What the source does not have was not deleted at the destination.")
        await self._work.store.event(SKIPPED, text, why)
        self._done = True  # last: the task may end at once, and it ends with this event

    async def _report(self) -> None:
        done = self._tree_remover
        if self._kept.count:
            text = Sentence(
                "Kept at the destination, because some file systems take their names for names of the source: "
                "%(entries)s files and folders, with everything in them.",
                entries=self._kept.count,
            )
            await self._work.store.event("PROGRESS", text, {"paths": self._kept.paths})
        if not done.removed:
            return
        text = Sentence(
            "Deleted at the destination, because the source does not have them: %(files)s files, "
            "%(folders)s folders, %(symlinks)s symbolic links.",
            files=done.files,
            folders=done.folders,
            symlinks=done.symlinks,
        )
        details = {"files": done.files, "directories": done.folders, "symlinks": done.symlinks, "paths": done.names}
        await self._work.store.event("PROGRESS", text, details)

    # ---- the walk

    async def _walk(self, visit: _Visit) -> None:
        for destination, source in self._deletion_scope.roots.items():
            stack = [_Pair(source, destination)]
            try:
                while stack:
                    await next_wave(stack, lambda pair: self._visited(pair, visit))
            finally:
                self._memory.close()

    async def _visited(self, pair: _Pair, visit: _Visit) -> Sequence[_Pair]:
        """Visit this folder. Returns the folders in it that both sides have; none where it cannot be listed."""
        self._memory.free(size_of(pair.source, pair.destination))
        memory = TaskShare(self._work.control_sessions.memory)
        try:
            inner = await visit(pair, await self._names(pair, memory))
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            if error.fault.kind is not Kind.FILE_NOT_FOUND or error.fault.side is not Side.DESTINATION:
                self._fault = worse(self._fault, error.fault)
            return ()
        finally:
            memory.close()
        for one in inner:
            self._memory.take(size_of(one.source, one.destination))
        return inner

    async def _visit(self, pair: _Pair, names: _SourceNames) -> Sequence[_Pair]:
        """Remove the extra entries of this folder."""
        inner, extras = await self._compare(pair, names, self._kept)
        await self._tree_remover.remove(pair.destination, extras.entries)
        while extras.more:
            before = self._tree_remover.removed
            _, extras = await self._compare(pair, names, _Kept())
            await self._tree_remover.remove(pair.destination, extras.entries)
            if self._tree_remover.removed == before:
                break
        return inner

    async def _count(self, pair: _Pair, names: _SourceNames) -> Sequence[_Pair]:
        """Count the entries of this folder, and the extra ones."""
        inner: list[_Pair] = []
        async for entries in self._work.control_sessions.listing(Side.DESTINATION, pair.destination or "/"):
            self._counter.total += len(entries)
            extras = [entry for entry in entries if self._is_extra(pair, names, entry, _Kept())]
            inner += [self._inner(pair, entry.name) for entry in entries if self._is_walked_on(pair, names, entry)]
            await self._counter.add(pair.destination, extras)
        return inner

    async def _names(self, pair: _Pair, memory: TaskShare) -> _SourceNames:
        """The names in the source folder."""
        names = _SourceNames()
        async for entries in self._work.control_sessions.listing(Side.SOURCE, pair.source or "/"):
            names.add([entry.name for entry in entries])
            folders = [entry.name for entry in entries if self._is_walked(entry)]
            memory.take(16 * len(entries) + sum(size_of(name) for name in folders))
            names.folders.update(folders)
        names.close()
        return names

    def _is_walked(self, entry: Entry) -> bool:
        """Whether the scan walked through this folder of the source."""
        walked = entry.is_directory if self._selection.links is Links.COPY else is_folder(entry)
        return walked and self._selection.includes(entry.name, folder=True)

    async def _compare(self, pair: _Pair, names: _SourceNames, kept: _Kept) -> tuple[list[_Pair], EntriesToRemove]:
        """Folders of both sides, and extra entries. kept: gets those that stay because of their names."""
        inner: list[_Pair] = []
        extras = EntriesToRemove()
        async for entries in self._work.control_sessions.listing(Side.DESTINATION, pair.destination or "/"):
            for entry in entries:
                if self._is_walked_on(pair, names, entry):
                    inner.append(self._inner(pair, entry.name))
                elif self._is_extra(pair, names, entry, kept):
                    extras.add(entry)
        return inner, extras

    def _inner(self, pair: _Pair, name: str) -> _Pair:
        return _Pair(f"{pair.source}/{name}", f"{pair.destination}/{name}", pair.depth + 1)

    def _is_walked_on(self, pair: _Pair, names: _SourceNames, entry: Entry) -> bool:
        """Whether both sides have this folder, and it belongs to no other item."""
        mine = entry.unique not in self._deletion_scope.excluded
        return entry.name in names.folders and is_folder(entry) and mine and pair.depth < MAX_DEPTH

    def _is_extra(self, pair: _Pair, names: _SourceNames, entry: Entry, kept: _Kept) -> bool:
        """Whether only the destination has this entry. kept: gets one that stays because of its name."""
        name = entry.name
        if name in names or not is_a_name(name) or self._stays(entry):
            return False
        if names.has_folded(name):
            kept.add(f"{pair.destination}/{name}")
            return False
        return True

    def _stays(self, entry: Entry) -> bool:
        folder = is_folder(entry)
        excluded = folder and entry.unique in self._deletion_scope.excluded
        return excluded or not self._selection.includes(entry.name, folder=folder)

    async def _known(self, paths: Sequence[str]) -> Collection[str]:
        """The paths that this task wrote, also under a name that folds to one of them."""
        known = {*await self._work.store.known(paths)}
        return known.union(path for path in paths if self._deletion_scope.has_file(path))
