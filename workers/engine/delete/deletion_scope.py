"""The folders where extra files may be deleted: the destinations of a task's items, if no item can harm another.

Items may overlap by name, or under another name through a symlink or a home: an extra file of one may then be a file
of the other. Servers identify such folders by the Unique fact (RFC 3659 section 7.5.2).
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from endpoints.gridftp.faults import FaultError, Side
from endpoints.gridftp.patterns import folded_path
from transferapi.tasks.records import ItemRow
from workers.engine.paths import parent, trimmed
from workers.engine.scan.comparison import entry_at
from workers.engine.work import SliceContext

#: Items read from the store at once, and facts requested in parallel.
ITEMS = 1000
PARALLEL_STATS = 200
#: Maximum number of folders that are compared with each other.
MAX_FOLDERS = 20_000


HIDDEN = (
    "The server of the destination does not distinguish symbolic links from folders: "
    "files behind a link might be deleted."
)

ONE_STORAGE = "Both endpoints are one storage, and a destination folder is a source folder or contains one."
UNKNOWN_STORAGE = (
    "Both endpoints may be one storage: no folder can be made at the destination to find out whether a destination "
    "folder is also a source folder."
)


class DeletionRefusedError(Exception):
    """Nothing may be deleted. Its text is a sentence for the user."""


class NameHashes:
    """Names, 8 octets for each. They are compared by hash: two names with one hash only make an extra file stay."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, names: Iterable[str]) -> None:
        self._hashes.extend(map(hash, names))

    def close(self) -> None:
        """Sort the names: all were added, and lookups begin."""
        self._hashes = array("q", sorted(self._hashes))

    def __contains__(self, name: str) -> bool:
        at = bisect_left(self._hashes, hash(name))
        return at < len(self._hashes) and self._hashes[at] == hash(name)


class DeletionScope:
    """`make` fills `roots`: destination folder -> source folder, both without a trailing slash.

    excluded: identities of folders that belong to an item; they are never touched.
    """

    def __init__(self, work: SliceContext) -> None:
        self.roots: dict[str, str] = {}
        self.excluded: set[str] = set()
        self._work = work
        #: Parent folders of items that are files, by side.
        self._parents: dict[Side, set[str]] = {Side.SOURCE: set(), Side.DESTINATION: set()}
        #: Folded destinations of items that are files.
        self._files = NameHashes()

    def has_file(self, path: str) -> bool:
        """Whether some file systems take this path for the destination of an item that is a file."""
        return folded_path(path) in self._files

    async def make(self) -> None:
        """Raises DeletionRefusedError, FaultError."""
        async for item, is_file in self._items():
            self._add_item(item, is_file)
        self._files.close()
        if self.roots:
            if not (await self._work.control_sessions.session(Side.DESTINATION)).tells_links:
                raise DeletionRefusedError(HIDDEN)
            self._check_names()
            await self._check_storage()
            await self._check_identities()

    async def _items(self) -> AsyncIterator[tuple[ItemRow, bool]]:
        last = 0
        while items := await self._work.store.items(last, ITEMS):
            for pair in items:
                yield pair
            last = items[-1][0].id

    def _add_item(self, item: ItemRow, is_file: bool) -> None:
        source, destination = trimmed(item.source_path), trimmed(item.destination_path or "")
        if is_file:
            self._parents[Side.SOURCE].add(parent(source))
            self._parents[Side.DESTINATION].add(parent(destination))
            self._files.add([folded_path(destination)])
        elif self.roots.setdefault(destination, source) != source:
            raise DeletionRefusedError(f"Two items have the same destination folder: {destination or '/'}")
        if len(self.roots) + sum(map(len, self._parents.values())) > MAX_FOLDERS:
            raise DeletionRefusedError(f"The items of this task lie in more than {MAX_FOLDERS} folders.")

    # ---- by name

    def _check_names(self) -> None:
        names = {root: root for root in self.roots}
        for root in self.roots:
            self._refuse_if_within(root, list(ancestors(root)), names)
        self._check_folded_names()
        if not self._work.same_endpoint:
            return
        sources = self._real(Side.SOURCE, self.roots.values())
        roots = self._real(Side.DESTINATION, self.roots)
        for root, name in roots.items():
            self._refuse_if_within(name, [root, *ancestors(root)], sources)
        for source, name in (sources | self._real(Side.SOURCE, self._parents[Side.SOURCE])).items():
            self._refuse_if_within(name, [source, *ancestors(source)], roots)

    def _check_folded_names(self) -> None:
        """Refuse folders that one file system may take for one, or for a folder inside another, by their spelling."""
        roots = {folded_path(root): root for root in self.roots}
        for path in (*self.roots, *self._parents[Side.DESTINATION]):
            for folder in (path, *ancestors(path)):
                root = roots.get(folded_path(folder), folder)
                if root != folder:
                    raise DeletionRefusedError(
                        f"Some file systems take two of the folders of the items for one: {root} and {folder}"
                    )

    def _real(self, side: Side, paths: Iterable[str]) -> dict[str, str]:
        """The paths as the servers know them -> the paths as the user knows them."""
        return {trimmed(self._work.real(side, path)): path for path in paths}

    def _refuse_if_within(self, path: str, folders: Sequence[str], others: Mapping[str, str]) -> None:
        """others: paths -> their names for the user."""
        for folder in folders:
            if folder in others:
                name = others[folder] or "/"
                raise DeletionRefusedError(f"The folders of the items lie in each other: {path or '/'} and {name}")

    # ---- by a probe

    async def _check_storage(self) -> None:
        """Refuse destinations that are a source, or contain one, by another endpoint of the same storage."""
        probe = self._work.storage_probe
        if not await probe.is_possible():
            return
        sources = {*self.roots.values(), *self._parents[Side.SOURCE]}
        folders = sorted({folder for source in sources for folder in (source, *ancestors(source))})
        marked: list[str] = []
        try:
            for root in self.roots:
                if not await probe.mark(root):
                    raise DeletionRefusedError(UNKNOWN_STORAGE)
                marked.append(root)
            for start in range(0, len(folders), PARALLEL_STATS):
                batch = folders[start : start + PARALLEL_STATS]
                if any(await asyncio.gather(*(probe.appears_in(folder, unsure=True) for folder in batch))):
                    raise DeletionRefusedError(ONE_STORAGE)
        finally:
            for root in marked:
                with suppress(FaultError):
                    await probe.unmark(root)

    # ---- by identity

    async def _check_identities(self) -> None:
        """Refuse folders that are one under two names, and exclude those that may appear later under another name."""
        roots = await self._identities(Side.DESTINATION, list(self.roots))
        if len(set(roots.values())) < len(roots):
            raise DeletionRefusedError("Two destination folders of this task are one folder under two names.")
        outside = [path for path in self._parents[Side.DESTINATION] if not self._is_in_a_root(path)]
        other_identities = set((await self._identities(Side.DESTINATION, outside)).values())
        if self._work.same_endpoint:
            sources = {*self.roots.values(), *self._parents[Side.SOURCE]}
            other_identities |= set((await self._identities(Side.SOURCE, list(sources))).values())
        if other_identities & set(roots.values()):
            raise DeletionRefusedError(
                "A destination folder of this task is also a folder of another item, by another name."
            )
        self.excluded = other_identities | set(roots.values())

    def _is_in_a_root(self, path: str) -> bool:
        """Whether this folder lies inside a root: its files are then known by name."""
        return any(folder in self.roots for folder in (path, *ancestors(path)))

    async def _identities(self, side: Side, paths: Sequence[str]) -> dict[str, str]:
        """The identities of these paths, for those that exist and have one."""
        found: dict[str, str] = {}
        for start in range(0, len(paths), PARALLEL_STATS):
            batch = paths[start : start + PARALLEL_STATS]
            entries = await asyncio.gather(
                *(entry_at(self._work.control_sessions, side, path or "/") for path in batch)
            )
            found.update((path, one.unique) for path, one in zip(batch, entries, strict=True) if one and one.unique)
        return found


def ancestors(path: str) -> Iterator[str]:
    """All parent folders of this path, up to the root, which is ""."""
    while path:
        path = parent(path)
        yield path
