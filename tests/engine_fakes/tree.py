"""A file system in memory: folders, files, symlinks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, make_fault

_ids = itertools.count(1)
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Node:
    """An inode. A file of `content` counts as len(content) * scale octets: large files take no memory."""

    content: bytes = b""
    scale: int = 1
    children: MutableMapping[str, Node] | None = None
    target: str | None = None
    special: str = ""
    modified: datetime | None = None
    id: int = field(default_factory=_ids.__next__)

    @property
    def size(self) -> int:
        return len(self.content) * self.scale

    @property
    def is_directory(self) -> bool:
        return self.children is not None


class MemoryTree:
    """Paths are absolute. Methods raise FaultError with the kinds that servers give."""

    def __init__(self) -> None:
        self.root = Node(children={})

    # ---- for tests

    def write(self, path: str, content: bytes = b"", *, scale: int = 1) -> Node:
        """Write a file, and make its parent folders."""
        folder, name = self._above(path)
        node = Node(content, scale)
        folder[name] = node
        return node

    def folder(self, path: str) -> None:
        """Make a folder and its parents."""
        at = self.root
        for name in _names(path):
            assert at.children is not None
            at = at.children.setdefault(name, Node(children={}))

    def link(self, path: str, target: str) -> None:
        """Make a symlink."""
        folder, name = self._above(path)
        folder[name] = Node(target=target)

    def special(self, path: str, kind: str = "OS.unix=pipe") -> None:
        """Make something that is neither a file nor a folder."""
        folder, name = self._above(path)
        folder[name] = Node(special=kind)

    def files(self, path: str = "") -> dict[str, bytes]:
        """The content of all files below this folder, by path relative to it; symlinks are not followed."""
        return dict(_walk(self.get(path or "/"), ""))

    def paths(self, path: str = "") -> set[str]:
        """All paths below this folder, relative to it."""
        return set(_paths(self.get(path or "/"), ""))

    # ---- the requests of a server

    def find(self, path: str, *, follow: bool = True) -> Node | None:
        """The node at this path, or None. A symlink at its end is followed by default, and before a slash always."""
        follow = follow or path.endswith("/")
        node = self.root
        names = _names(path)
        for index, name in enumerate(names):
            inner = node.children.get(name) if node.children is not None else None
            if inner is None:
                return None
            if inner.target is not None and (follow or index < len(names) - 1):
                inner = self.find(inner.target)
                if inner is None:
                    return None
            node = inner
        return node

    def get(self, path: str, *, follow: bool = True) -> Node:
        """The node at this path. Raises FaultError(FILE_NOT_FOUND)."""
        node = self.find(path, follow=follow)
        if node is None:
            raise not_found(path)
        return node

    def entry(self, name: str, node: Node) -> Entry:
        """A line of a listing; a symlink has the facts of its target."""
        seen = self.find(node.target) if node.target is not None else node
        if seen is None:
            return Entry(name, "link", link_target=node.target)
        kind = seen.special or ("dir" if seen.is_directory else "file")
        return Entry(name, kind, seen.size, seen.modified, link_target=node.target, unique=str(seen.id))

    def open_for_writing(self, path: str, *, truncate: bool) -> Node:
        """Open a file as STOR does: an existing inode is overwritten."""
        folder = self.find(path.rpartition("/")[0] or "/")
        if folder is None or folder.children is None:
            raise not_found(path)
        name = path.rpartition("/")[2]
        is_there = name in folder.children
        node = folder.children.setdefault(name, Node())
        if node.is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, path))
        if is_there:
            # The time shows that the file was written; each time is another one.
            node.modified = _BEGINNING + timedelta(seconds=next(_ids))
        if truncate:
            node.content = b""
        return node

    def make_directory(self, path: str) -> None:
        folder = self.find(path.rpartition("/")[0] or "/")
        if folder is None:
            raise not_found(path)
        if folder.children is None:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))
        folder.children.setdefault(path.rpartition("/")[2], Node(children={}))
        there = self.find(path)
        if there is None or not there.is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))

    def remove(self, path: str, *, directory: bool) -> None:
        node = self.get(path, follow=False)
        if directory is not node.is_directory:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY if directory else Kind.IS_A_DIRECTORY, path))
        if node.children:
            raise FaultError(make_fault(Kind.DIRECTORY_NOT_EMPTY, path))
        self._children(path).pop(path.rpartition("/")[2])

    def rename(self, old: str, new: str) -> None:
        node = self.get(old, follow=False)
        there = self.find(new)
        if there is not None and there.is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, new))
        self._children(new)[new.rpartition("/")[2]] = node
        self._children(old).pop(old.rpartition("/")[2])

    def _children(self, path: str) -> MutableMapping[str, Node]:
        folder = self.get(path.rpartition("/")[0] or "/")
        if folder.children is None:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path))
        return folder.children

    def _above(self, path: str) -> tuple[MutableMapping[str, Node], str]:
        above, _, name = path.rpartition("/")
        self.folder(above)
        return self._children(path), name


def not_found(path: str) -> FaultError:
    """The error of a path that does not exist."""
    fault = make_fault(Kind.FILE_NOT_FOUND, f"550 {path}: No such file or directory")
    assert fault.scope is FaultScope.FILE
    return FaultError(fault)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _walk(node: Node, path: str) -> Iterator[tuple[str, bytes]]:
    for name, inner in (node.children or {}).items():
        inner_path = f"{path}/{name}"
        if inner.is_directory:
            yield from _walk(inner, inner_path)
        elif inner.target is None and not inner.special:
            yield inner_path, inner.content


def _paths(node: Node, path: str) -> Iterator[str]:
    for name, inner in (node.children or {}).items():
        yield f"{path}/{name}"
        yield from _paths(inner, f"{path}/{name}")
