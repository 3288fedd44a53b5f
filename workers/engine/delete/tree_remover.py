"""Removes trees as it finds them: entries that appeared since a scan, and extra files.

Symlinks are not followed. An entry that has to stay, or cannot be removed, keeps its parent folders, and no others.
Memory: at most LEAVES entries of one folder in LEAF_OCTETS, and the folders beside the current path (`bounds.Memory`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from identity.gsi.printable import quoted
from workers.engine.bounds import size_of
from workers.engine.paths import is_a_name, is_within
from workers.engine.retry import worse
from workers.engine.scan.hidden_links import unlink_hidden
from workers.engine.scan.visits import request_fault
from workers.engine.scan.walk import MAX_DEPTH
from workers.engine.work import SliceContext

T = TypeVar("T")

#: A missing file counts as removed.
GONE = frozenset({Kind.FILE_NOT_FOUND})
#: Removals that are sent at once.
BATCH = 500
#: Entries of one folder in memory at once, and octets of these; a folder with more is listed again.
LEAVES, LEAF_OCTETS = 20_000, 4 << 20
#: Folders that are visited in parallel.
WAVE = 16
#: Paths that are remembered for the user.
NAMES = 20


def is_folder(entry: Entry) -> bool:
    """Whether this is a folder itself, and not a symlink to one."""
    return entry.is_directory and entry.link_target is None


class RemovalLimitError(Exception):
    """More would be removed than was allowed; nothing of the batch that exceeds the limit was."""


class EntriesToRemove:
    """Entries of a folder that are to be removed, as many as fit into memory. more: there were others."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.more = False
        self._octets = 0

    def add(self, entry: Entry) -> None:
        """Only the name and the kind of an entry are kept: its other facts, as the target of a link, may be long."""
        self._octets += size_of(entry.name)
        if len(self.entries) >= LEAVES or (self.entries and self._octets > LEAF_OCTETS):
            self.more = True
        else:
            kind = "dir" if entry.is_directory else "link" if entry.is_link else "file"
            self.entries.append(Entry(entry.name, kind, link_target=None if entry.link_target is None else ""))


async def next_wave(stack: list[T], visit: Callable[[T], Awaitable[Sequence[T]]]) -> None:
    """Visit the last few of the stack in parallel, and replace them by the results. Raises the errors of the visits.

    It waits for all visits, even after an error: none may remove files after the caller has stopped.
    """
    wave = [stack.pop() for _ in range(min(WAVE, len(stack)))]
    for inner in await asyncio.gather(*map(visit, wave), return_exceptions=True):
        if isinstance(inner, BaseException):
            raise inner
        stack += inner


@dataclass(slots=True, eq=False)
class _Branch:
    """A folder that is being removed."""

    path: str
    above: _Branch | None
    depth: int
    #: Subfolders that still exist, and one for itself until it was visited.
    remaining: int = 1
    #: An entry of it stays.
    kept: bool = False


class TreeRemover:
    """Counts and names the removed entries; `fault` is the fault of one that could not be removed.

    keeps: returns whether an entry stays. find_known: returns which of these files stay, before they are removed.
    unlisted: whether entries that the server does not list may be removed with their folder.
    """

    def __init__(
        self,
        work: SliceContext,
        side: Side,
        *,
        keeps: Callable[[Entry], bool] = lambda _: False,
        find_known: Callable[[Sequence[str]], Awaitable[Collection[str]]] | None = None,
        unlisted: bool = True,
    ) -> None:
        self.files = 0
        self.folders = 0
        self.symlinks = 0
        self.names: list[str] = []
        self.fault: Fault | None = None
        #: The removals sent since `allow`, and the most that it allowed; None: no limit.
        self.sent = 0
        self._most: int | None = None
        self._work = work
        self._side = side
        self._keeps = keeps
        self._find_known = find_known
        self._unlisted = unlisted
        #: Empty folders, the deepest first.
        self._empty: list[str] = []
        #: Folders with entries that cannot be listed or removed.
        self._unremovable: list[str] = []

    @property
    def removed(self) -> int:
        return self.files + self.folders + self.symlinks

    def allow(self, most: int | None) -> None:
        """Let no more than so many removals be sent from now on: one more raises RemovalLimitError."""
        self.sent = 0
        self._most = most

    async def remove(self, folder: str, entries: Sequence[Entry]) -> None:
        """Remove these entries of a folder. Raises FaultError when the connection is lost."""
        await self._leaves(None, folder, [entry for entry in entries if not is_folder(entry)])
        await self.remove_folders([f"{folder}/{entry.name}" for entry in entries if is_folder(entry)])

    async def remove_folders(self, paths: Sequence[str]) -> None:
        """Remove these folders with everything in them. Raises FaultError when the connection is lost."""
        stack = [*await self._real([_Branch(path, None, 0) for path in paths])]
        while stack:
            await next_wave(stack, self._visit)
            await self._prune(BATCH)
        await self._prune(1)

    # ---- inside

    async def _visit(self, branch: _Branch) -> Sequence[_Branch]:
        """Remove the entries of this folder that are not folders. Returns its subfolders."""
        inner: Sequence[_Branch] = ()
        try:
            inner = await self._remove_leaves(branch)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            if error.fault.kind not in GONE:
                self._keep(branch, error.fault)
        branch.remaining += len(inner) - 1
        self._finish(branch)
        return inner

    async def _remove_leaves(self, branch: _Branch) -> Sequence[_Branch]:
        leaves, inner = await self._list(branch)
        await self._leaves(branch, branch.path, leaves.entries)
        while leaves.more:
            before = self.removed
            leaves, again = await self._list(branch)
            self._free(again)
            await self._leaves(branch, branch.path, leaves.entries)
            if self.removed == before:
                break
        return await self._real(inner)

    async def _real(self, branches: Sequence[_Branch]) -> Sequence[_Branch]:
        """Leave out symlinks, on servers where only a removal shows that they are links."""
        paths = [branch.path for branch in branches]
        links = await self._work.control_sessions.ask(self._side, lambda session: unlink_hidden(session, paths))
        for branch in branches:
            if branch.path in links:
                self._note({branch.path: links[branch.path]}, branch.above)
                self.symlinks += links[branch.path] is None
        return [branch for branch in branches if branch.path not in links]

    async def _list(self, branch: _Branch) -> tuple[EntriesToRemove, list[_Branch]]:
        """The contents of this folder: leaves and subfolders."""
        leaves = EntriesToRemove()
        inner: list[_Branch] = []
        async for entries in self._work.control_sessions.listing(self._side, branch.path):
            for entry in entries:
                if self._stays(branch, entry):
                    continue
                if is_folder(entry):
                    inner.append(_Branch(f"{branch.path}/{entry.name}", branch, branch.depth + 1))
                    self._work.control_sessions.memory.take(size_of(inner[-1].path))
                else:
                    leaves.add(entry)
        return leaves, inner

    def _free(self, branches: Sequence[_Branch]) -> None:
        for branch in branches:
            self._work.control_sessions.memory.free(size_of(branch.path))

    def _stays(self, branch: _Branch, entry: Entry) -> bool:
        if not is_a_name(entry.name) or branch.depth >= MAX_DEPTH:
            text = f"Cannot be removed: {quoted(entry.name)}"
            self._keep(branch, request_fault(Kind.INVALID_PATH_NAME, text, self._side))
        elif self._keeps(entry):
            branch.kept = True
        else:
            return False
        return True

    async def _leaves(self, branch: _Branch | None, folder: str, leaves: Sequence[Entry]) -> None:
        for start in range(0, len(leaves), BATCH):
            batch = {f"{folder}/{entry.name}": entry for entry in leaves[start : start + BATCH]}
            known = await self._find_known(list(batch)) if self._find_known else ()
            if known and branch:
                branch.kept = True
            paths = [path for path in batch if path not in known]
            faults = await self._ask(paths, folders=False)
            links = sum(not fault and batch[path].link_target is not None for path, fault in faults.items())
            self.symlinks += links
            self.files += sum(not fault for fault in faults.values()) - links
            self._note(faults, branch)

    async def _prune(self, at_least: int) -> None:
        """Remove the empty folders when there are at least so many."""
        if len(self._empty) < at_least:
            return
        paths, self._empty = self._empty, []
        faults = await self._ask(paths, folders=True)
        for path, fault in faults.items():
            if fault and fault.kind is Kind.DIRECTORY_NOT_EMPTY:
                faults[path] = await self._remove_unlisted(path, fault)
        self.folders += sum(not fault for fault in faults.values())
        self._note(faults, None)

    async def _remove_unlisted(self, path: str, fault: Fault) -> Fault | None:
        """The folder is not empty. If its listing is empty a retry cannot succeed, but another command may."""
        try:
            listed = False
            async for entries in self._work.control_sessions.listing(self._side, path):
                listed = listed or bool(entries)
            if listed and not any(is_within(unremovable, path) for unremovable in self._unremovable):
                return fault
            if self._unlisted and not listed:
                await self._work.control_sessions.ask(self._side, lambda session: session.remove_unlisted(path))
                return None
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
        self._unremovable.append(path)
        return replace(fault, retryable=False, advice="This folder contains something that the server does not list.")

    async def _ask(self, paths: Sequence[str], *, folders: bool) -> dict[str, Fault | None]:
        """Remove these. Entries that were missing are left out of the answer."""
        if not paths:
            return {}
        if self._most is not None and self.sent + len(paths) > self._most:
            raise RemovalLimitError
        self.sent += len(paths)
        entries = [(path, folders) for path in paths]
        faults = await self._work.control_sessions.ask(self._side, lambda session: session.remove(entries))
        asked = dict(zip(paths, faults, strict=True))
        self.names += [path for path in paths if asked[path] is None][: NAMES - len(self.names)]
        return {path: fault for path, fault in asked.items() if fault is None or fault.kind not in GONE}

    def _note(self, faults: dict[str, Fault | None], branch: _Branch | None) -> None:
        for fault in faults.values():
            if fault is not None:
                self._keep(branch, fault)

    def _keep(self, branch: _Branch | None, fault: Fault) -> None:
        self.fault = worse(self.fault, fault)
        if branch:
            branch.kept = True

    def _finish(self, branch: _Branch) -> None:
        """Mark the folder, and parents without remaining subfolders, as empty or kept."""
        at: _Branch | None = branch
        while at and not at.remaining:
            self._free([at])
            if at.kept and at.above:
                at.above.kept = True
            elif not at.kept:
                self._empty.append(at.path)
            at = at.above
            if at:
                at.remaining -= 1
