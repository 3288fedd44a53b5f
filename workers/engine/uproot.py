"""Things removed with all that is in them, as they are found: for what appeared meanwhile, and for extras.

Nothing is followed. What has to stay, or cannot be removed, keeps the folders that it lies in, and no others.
Memory: the names of one folder as far as LEAVES, and the folders that lie beside the way down (`bounds.Memory`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.gridftp.words import quoted

from .bounds import size_of
from .hidden import unlink_hidden
from .paths import is_a_name, is_within
from .retry import worse
from .visits import request_fault
from .walk import MAX_DEPTH
from .work import Work

T = TypeVar("T")

#: What is not there is as good as removed.
GONE = frozenset({Kind.FILE_NOT_FOUND})
#: Removals that are sent at once.
BATCH = 500
#: Names of one folder that are remembered at once; where there are more, it is listed again.
LEAVES = 20_000
#: Folders that are looked through side by side.
WAVE = 16
#: Paths that are remembered for the user.
NAMES = 20


def is_folder(entry: Entry) -> bool:
    """Whether this is a folder itself, and no symlink to one."""
    return entry.is_directory and entry.link_target is None


async def next_wave(stack: list[T], visit: Callable[[T], Awaitable[Sequence[T]]]) -> None:
    """Visit the last few of the stack side by side, and put what they lead to in their place. Raises what they raise.

    All of them come to their ends before: nothing is removed behind the back of one who has given up.
    """
    wave = [stack.pop() for _ in range(min(WAVE, len(stack)))]
    for inner in await asyncio.gather(*map(visit, wave), return_exceptions=True):
        if isinstance(inner, BaseException):
            raise inner
        stack += inner


@dataclass(slots=True, eq=False)
class _Branch:
    """A folder on its way out."""

    path: str
    above: _Branch | None
    depth: int
    #: Folders in it that are still there, and one for itself until it was looked through.
    left: int = 1
    #: Something in it stays.
    kept: bool = False


class Uprooter:
    """Counts and names what it removed; `fault` is of what it could not.

    spares: entries that stay, whatever they are. knows: which of these paths stay, asked before files are removed.
    unlisted: whether what the server does not list may go with its folder.
    """

    def __init__(
        self,
        work: Work,
        side: Side,
        *,
        spares: Callable[[Entry], bool] = lambda _: False,
        knows: Callable[[Sequence[str]], Awaitable[Collection[str]]] | None = None,
        unlisted: bool = True,
    ) -> None:
        self.files = 0
        self.folders = 0
        self.symlinks = 0
        self.spared = 0
        self.names: list[str] = []
        self.fault: Fault | None = None
        self._work = work
        self._side = side
        self._spares = spares
        self._knows = knows
        self._unlisted = unlisted
        #: Empty folders, those that lie in others first.
        self._empty: list[str] = []
        #: Folders that hold what nobody can see, nor remove.
        self._stuck: list[str] = []

    @property
    def removed(self) -> int:
        return self.files + self.folders + self.symlinks

    async def remove(self, folder: str, entries: Sequence[Entry]) -> None:
        """Remove these entries of a folder. Raises FaultError when the connection is lost."""
        await self._leaves(None, folder, [entry for entry in entries if not is_folder(entry)])
        await self.remove_folders([f"{folder}/{entry.name}" for entry in entries if is_folder(entry)])

    async def remove_folders(self, paths: Sequence[str]) -> None:
        """Remove these folders with all that is in them. Raises FaultError when the connection is lost."""
        stack = [*await self._real([_Branch(path, None, 0) for path in paths])]
        while stack:
            await next_wave(stack, self._visit)
            await self._prune(BATCH)
        await self._prune(1)

    # ---- inside

    async def _visit(self, branch: _Branch) -> Sequence[_Branch]:
        """Remove what in it is no folder; the folders in it."""
        inner: Sequence[_Branch] = ()
        try:
            inner = await self._look_through(branch)
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            if error.fault.kind not in GONE:
                self._keep(branch, error.fault)
        branch.left += len(inner) - 1
        self._finish(branch)
        return inner

    async def _look_through(self, branch: _Branch) -> Sequence[_Branch]:
        leaves, inner, more = await self._list(branch)
        await self._leaves(branch, branch.path, leaves)
        while more:
            before = self.removed
            leaves, again, more = await self._list(branch)
            self._forget(again)
            await self._leaves(branch, branch.path, leaves)
            more = more and self.removed > before
        return await self._real(inner)

    async def _real(self, branches: Sequence[_Branch]) -> Sequence[_Branch]:
        """Without those that are symlinks, where only their removal tells."""
        paths = [branch.path for branch in branches]
        apart = await self._work.desk.ask(self._side, lambda session: unlink_hidden(session, paths))
        for branch in branches:
            if branch.path in apart:
                self._note({branch.path: apart[branch.path]}, branch.above)
                self.symlinks += apart[branch.path] is None
        return [branch for branch in branches if branch.path not in apart]

    async def _list(self, branch: _Branch) -> tuple[list[Entry], list[_Branch], bool]:
        """What lies in it: leaves, folders, and whether there were more than could be remembered."""
        leaves: list[Entry] = []
        inner: list[_Branch] = []
        more = False
        async for entries in self._work.desk.listing(self._side, branch.path):
            for entry in entries:
                if self._stays(branch, entry):
                    continue
                if is_folder(entry):
                    inner.append(_Branch(f"{branch.path}/{entry.name}", branch, branch.depth + 1))
                    self._work.desk.memory.take(size_of(inner[-1].path))
                elif len(leaves) < LEAVES:
                    leaves.append(entry)
                else:
                    more = True
        return leaves, inner, more

    def _forget(self, branches: Sequence[_Branch]) -> None:
        for branch in branches:
            self._work.desk.memory.free(size_of(branch.path))

    def _stays(self, branch: _Branch, entry: Entry) -> bool:
        if not is_a_name(entry.name) or branch.depth >= MAX_DEPTH:
            text = f"Not to be removed: {quoted(entry.name)}"
            self._keep(branch, request_fault(Kind.INVALID_PATH_NAME, text, self._side))
        elif self._spares(entry):
            self.spared += 1
            branch.kept = True
        else:
            return False
        return True

    async def _leaves(self, branch: _Branch | None, folder: str, leaves: Sequence[Entry]) -> None:
        for start in range(0, len(leaves), BATCH):
            batch = {f"{folder}/{entry.name}": entry for entry in leaves[start : start + BATCH]}
            known = await self._knows(list(batch)) if self._knows else ()
            self.spared += len(known)
            if known and branch:
                branch.kept = True
            paths = [path for path in batch if path not in known]
            faults = await self._ask(paths, folders=False)
            links = sum(not fault and batch[path].link_target is not None for path, fault in faults.items())
            self.symlinks += links
            self.files += sum(not fault for fault in faults.values()) - links
            self._note(faults, branch)

    async def _prune(self, at_least: int) -> None:
        """Remove the empty folders when there are so many."""
        if len(self._empty) < at_least:
            return
        paths, self._empty = self._empty, []
        faults = await self._ask(paths, folders=True)
        for path, fault in faults.items():
            if fault and fault.kind is Kind.DIRECTORY_NOT_EMPTY:
                faults[path] = await self._look_unlisted(path, fault)
        self.folders += sum(not fault for fault in faults.values())
        self._note(faults, None)

    async def _look_unlisted(self, path: str, fault: Fault) -> Fault | None:
        """The folder is not empty. If it lists as empty, then no repetition will help, but perhaps another command."""
        try:
            listed = False
            async for entries in self._work.desk.listing(self._side, path):
                listed = listed or bool(entries)
            if listed and not any(is_within(stuck, path) for stuck in self._stuck):
                return fault
            if self._unlisted and not listed:
                await self._work.desk.ask(self._side, lambda session: session.remove_unlisted(path))
                return None
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
        self._stuck.append(path)
        return replace(
            fault, retryable=False, advice="There is something in this folder that the server does not list."
        )

    async def _ask(self, paths: Sequence[str], *, folders: bool) -> dict[str, Fault | None]:
        """Remove these; what was gone already is left out of the answer."""
        if not paths:
            return {}
        entries = [(path, folders) for path in paths]
        faults = await self._work.desk.ask(self._side, lambda session: session.remove(entries))
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
        """Go up as far as nothing is left."""
        at: _Branch | None = branch
        while at and not at.left:
            self._forget([at])
            if at.kept and at.above:
                at.above.kept = True
            elif not at.kept:
                self._empty.append(at.path)
            at = at.above
            if at:
                at.left -= 1
