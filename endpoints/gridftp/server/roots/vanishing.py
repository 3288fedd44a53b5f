"""A served folder that may vanish and come back while the server runs, as that of a disk which is unplugged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .by_path import PathRoot, open_root
from .root import PathLike, Root, outside
from .several import SeveralRoots


class VanishingRoot(SeveralRoots):
    """The folder is opened again by its path for each use: no descriptor outlives its disk, or keeps it mounted.

    No component of the path may have become a symlink: a client that may write above the folder could have made it.
    While the folder is missing, each use raises FileNotFoundError.
    """

    def __init__(self, folder: PathLike) -> None:
        self.real = os.path.realpath(os.fsencode(folder))
        top = open_root(os.sep)
        #: None on a system without descriptors of folders.
        self._top: Root | None = None if isinstance(top, PathRoot) else top

    def close(self) -> None:
        if self._top is not None:
            self._top.close()

    @contextlib.contextmanager
    def at(self, path: bytes, *, changing: bool = False) -> Iterator[tuple[Root, bytes]]:
        if self._top is not None:
            with self._top.without_links(self.real) as root:
                yield root, path
            return
        by_path = PathRoot(self.real)
        if os.path.normcase(by_path.real) != os.path.normcase(self.real):
            raise outside()
        yield by_path, path

    def require_writable(self, path: bytes) -> None:
        if self._top is not None and not self._top.folds_case:
            return
        with self.at(path) as (root, rest):
            root.require_writable(rest)
