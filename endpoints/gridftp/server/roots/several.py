"""A root that is made of other roots: each path is one of them, and a path in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import ContextManager

from .root import PathLike, Root

_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class SeveralRoots(Root):
    """Subclasses say by `at` which root a path belongs to. All errors are OSErrors, as those of `Root`."""

    def at(self, path: bytes, *, changing: bool = False) -> ContextManager[tuple[Root, bytes]]:
        """The root and the path in it. changing: the path is opened to change it."""
        raise NotImplementedError

    def open(self, path: bytes, flags: int, mode: int = 0o666) -> int:
        with self.at(path, changing=bool(flags & _CHANGING)) as (root, rest):
            return root.open(rest, flags, mode)

    def stat(self, path: bytes) -> os.stat_result:
        with self.at(path) as (root, rest):
            return root.stat(rest)

    def free_space(self, path: bytes) -> int:
        with self.at(path) as (root, rest):
            return root.free_space(rest)

    def require_folder(self, path: bytes) -> None:
        with self.at(path) as (root, rest):
            root.require_folder(rest)

    def require_link_target(self, path: bytes, target: bytes) -> None:
        with self.at(path) as (root, rest):
            root.require_link_target(rest, target)

    def children(self, path: bytes) -> Iterator[tuple[str, os.stat_result, str | None]]:
        with self.at(path) as (root, rest):
            yield from root.children(rest)

    @contextlib.contextmanager
    def opened_to_change(self, path: bytes) -> Iterator[PathLike | int]:
        with self.at(path) as (root, rest), root.opened_to_change(rest) as found:
            yield found

    @contextlib.contextmanager
    def _above(self, path: bytes, name: bytes) -> Iterator[tuple[int | None, bytes]]:
        with self.at(path) as (root, rest), root._above(rest, name) as found:
            yield found

    @contextlib.contextmanager
    def behind_links(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        with self.at(path, changing=True) as (root, rest), root.behind_links(rest) as found:
            yield found

    @contextlib.contextmanager
    def without_links(self, path: bytes) -> Iterator[Root]:
        with self.at(path) as (root, rest), root.without_links(rest) as found:
            yield found
