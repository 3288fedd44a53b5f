"""Counts what a mirror would delete before it deletes: a source that is not mounted lists as empty.

Entries are files, folders and symlinks, with all that is in extra folders. Memory: the folders beside the current path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Side
from workers.engine.bounds import TaskShare, size_of
from workers.engine.paths import is_a_name
from workers.engine.scan.walk import MAX_DEPTH
from workers.engine.work import SliceContext

from .tree_remover import BATCH, is_folder, next_wave


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    depth: int = 0


class ExtraCounter:
    """total: the entries of the destination's folders so far; extra: those among them that would be deleted."""

    def __init__(
        self,
        work: SliceContext,
        keeps: Callable[[Entry], bool],
        find_known: Callable[[Sequence[str]], Awaitable[Collection[str]]],
    ) -> None:
        self.total = 0
        self.extra = 0
        self._work = work
        self._keeps = keeps
        self._find_known = find_known

    def is_above(self, percent: int) -> bool:
        """Whether more than so much of the destination is extra."""
        return 100 * self.extra > percent * self.total

    async def add(self, folder: str, extras: Sequence[Entry]) -> None:
        """Count extra entries of a folder; `total` has them already. Raises FaultError when a connection is lost."""
        await self._add_leaves(folder, [entry for entry in extras if not is_folder(entry)])
        stack = [_Folder(f"{folder}/{entry.name}") for entry in extras if is_folder(entry)]
        self.extra += len(stack)
        memory = TaskShare(self._work.control_sessions.memory)
        try:
            memory.take(sum(size_of(one.path) for one in stack))
            while stack:
                await next_wave(stack, lambda one: self._visit(one, memory))
        finally:
            memory.close()

    async def _visit(self, folder: _Folder, memory: TaskShare) -> Sequence[_Folder]:
        """Count the contents of an extra folder. One that cannot be listed counts as one entry."""
        memory.free(size_of(folder.path))
        inner: list[_Folder] = []
        if folder.depth >= MAX_DEPTH:
            return inner
        try:
            async for entries in self._work.control_sessions.listing(Side.DESTINATION, folder.path):
                found = await self._add_contents(folder, entries)
                memory.take(sum(size_of(one.path) for one in found))
                inner += found
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
        return inner

    async def _add_contents(self, folder: _Folder, entries: Sequence[Entry]) -> list[_Folder]:
        """Count entries of an extra folder. Returns its subfolders."""
        self.total += len(entries)
        going = [entry for entry in entries if is_a_name(entry.name) and not self._keeps(entry)]
        await self._add_leaves(folder.path, [entry for entry in going if not is_folder(entry)])
        found = [_Folder(f"{folder.path}/{one.name}", folder.depth + 1) for one in going if is_folder(one)]
        self.extra += len(found)
        return found

    async def _add_leaves(self, folder: str, leaves: Sequence[Entry]) -> None:
        for start in range(0, len(leaves), BATCH):
            paths = [f"{folder}/{entry.name}" for entry in leaves[start : start + BATCH]]
            known = await self._find_known(paths)
            self.extra += len(paths) - len(known)  # behind the await: visits run side by side
