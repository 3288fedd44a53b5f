"""Folders of a tree in memory that do not distinguish all names, as on SMB, vfat, macOS and Windows."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, MutableMapping

from .tree import Node


def without_case(name: str) -> str:
    """As NTFS, APFS and vfat compare names."""
    return name.casefold()


def composed(name: str) -> str:
    """As HFS+ and some SMB servers compare names: canonical equivalents are one name."""
    return unicodedata.normalize("NFC", name)


class FoldingFolder(MutableMapping[str, Node]):
    """The children of a folder. It keeps the spelling of the first name that it was given."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        self._fold = fold
        self._entries: dict[str, tuple[str, Node]] = {}

    def __getitem__(self, name: str) -> Node:
        return self._entries[self._fold(name)][1]

    def __setitem__(self, name: str, node: Node) -> None:
        spelled, _ = self._entries.get(self._fold(name), (name, node))
        if node.children is not None and not isinstance(node.children, FoldingFolder):
            node.children = folding(self._fold, node.children)
        self._entries[self._fold(name)] = spelled, node

    def __delitem__(self, name: str) -> None:
        del self._entries[self._fold(name)]

    def __iter__(self) -> Iterator[str]:
        return iter([spelled for spelled, _ in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)


def folding(fold: Callable[[str], str], children: MutableMapping[str, Node]) -> FoldingFolder:
    """The same children, in folders that fold at every level."""
    found = FoldingFolder(fold)
    found.update(children)
    return found
