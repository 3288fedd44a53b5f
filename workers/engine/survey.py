"""Where extras may be deleted: the destination folders of a task's items, when none of them can harm another.

Items overlap by name, or under another name by a symlink or a home: then what is an extra of one may be a file of the
other. Servers tell such folders apart by the Unique fact (RFC 3659 section 7.5.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

from endpoints.gridftp.faults import FaultError, Kind, Side

from .desk import UnreachableError
from .hidden import tells_links
from .paths import parent, trimmed
from .ports import ItemRow
from .work import Work

#: Items read from the store at once, and folders looked at side by side.
ITEMS = 1000
LOOKS = 200
#: Folders that are compared with each other at most.
MAX_FOLDERS = 20_000


HIDDEN = (
    "The server of the destination does not tell symbolic links from folders: "
    "what lies behind one might have been deleted."
)


class RefusedError(Exception):
    """Nothing may be deleted; the text says why."""


class Survey:
    """`make` fills `roots`: destination folder -> source folder, both without a slash at the end.

    shunned: identities of folders that belong to an item, to be left alone wherever they turn up.
    """

    def __init__(self, work: Work) -> None:
        self.roots: dict[str, str] = {}
        self.shunned: set[str] = set()
        self._work = work
        #: Folders that items lie in which are files, by side.
        self._parents: dict[Side, set[str]] = {Side.SOURCE: set(), Side.DESTINATION: set()}

    async def make(self) -> None:
        """Raises RefusedError, FaultError."""
        async for item, is_file in self._items():
            self._take(item, is_file)
        if self.roots:
            if not await self._work.desk.ask(Side.DESTINATION, tells_links):
                raise RefusedError(HIDDEN)
            self._check_names()
            await self._check_identities()

    async def _items(self) -> AsyncIterator[tuple[ItemRow, bool]]:
        last = 0
        while items := await self._work.store.items(last, ITEMS):
            for pair in items:
                yield pair
            last = items[-1][0].id

    def _take(self, item: ItemRow, is_file: bool) -> None:
        source, destination = trimmed(item.source_path), trimmed(item.destination_path or "")
        if is_file:
            self._parents[Side.SOURCE].add(parent(source))
            self._parents[Side.DESTINATION].add(parent(destination))
        elif self.roots.setdefault(destination, source) != source:
            raise RefusedError(f"Two items have the same destination folder: {destination or '/'}")
        if len(self.roots) + sum(map(len, self._parents.values())) > MAX_FOLDERS:
            raise RefusedError(f"The items of this task lie in more than {MAX_FOLDERS} folders.")

    # ---- by name

    def _check_names(self) -> None:
        names = {root: root for root in self.roots}
        for root in self.roots:
            self._refuse_if_within(root, list(above(root)), names)
        if not self._work.same_endpoint:
            return
        sources = self._real(Side.SOURCE, self.roots.values())
        roots = self._real(Side.DESTINATION, self.roots)
        for root, name in roots.items():
            self._refuse_if_within(name, [root, *above(root)], sources)
        for source, name in (sources | self._real(Side.SOURCE, self._parents[Side.SOURCE])).items():
            self._refuse_if_within(name, [source, *above(source)], roots)

    def _real(self, side: Side, paths: Iterable[str]) -> dict[str, str]:
        """What the servers call these, with what the user does."""
        return {trimmed(self._work.real(side, path)): path for path in paths}

    def _refuse_if_within(self, path: str, folders: Sequence[str], others: Mapping[str, str]) -> None:
        """others: with their names for the user."""
        for folder in folders:
            if folder in others:
                name = others[folder] or "/"
                raise RefusedError(f"The folders of the items lie in each other: {path or '/'} and {name}")

    # ---- by identity

    async def _check_identities(self) -> None:
        """Folders that are one under two names; what is met under another name later is shunned."""
        roots = await self._identities(Side.DESTINATION, list(self.roots))
        if len(set(roots.values())) < len(roots):
            raise RefusedError("Two destination folders of this task are one folder under two names.")
        strangers = [path for path in self._parents[Side.DESTINATION] if not self._is_in_a_root(path)]
        others = set((await self._identities(Side.DESTINATION, strangers)).values())
        if self._work.same_endpoint:
            sources = {*self.roots.values(), *self._parents[Side.SOURCE]}
            others |= set((await self._identities(Side.SOURCE, list(sources))).values())
        if others & set(roots.values()):
            raise RefusedError("A destination folder of this task is also a folder of another item, by another name.")
        self.shunned = others | set(roots.values())

    def _is_in_a_root(self, path: str) -> bool:
        """Then its files are known by their names."""
        return any(folder in self.roots for folder in (path, *above(path)))

    async def _identities(self, side: Side, paths: Sequence[str]) -> dict[str, str]:
        """By path, of those that are there and have one."""
        found: dict[str, str] = {}
        for start in range(0, len(paths), LOOKS):
            batch = paths[start : start + LOOKS]
            uniques = await asyncio.gather(*(self._identity(side, path) for path in batch))
            found.update((path, unique) for path, unique in zip(batch, uniques, strict=True) if unique)
        return found

    async def _identity(self, side: Side, path: str) -> str:
        try:
            return (await self._work.desk.ask(side, lambda session: session.stat(path or "/"))).unique
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                raise
            return ""


def above(path: str) -> Iterator[str]:
    """All folders that this path lies in, up to the root, which is ""."""
    while path:
        path = parent(path)
        yield path
