"""Several served folders in one tree: each is a folder of the top, `/name`, and can be read-only.

The top itself is no folder on the disk: it is listed, and nothing can be made in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .by_path import open_root
from .root import Root, normalize
from .several import SeveralRoots
from .vanishing import VanishingRoot


class RootPart(NamedTuple):
    """A folder to serve. name: its name at the top ("" where it is the only one); writable: may it be changed?

    may_vanish: it may be missing at the start and later, and is served whenever it is there.
    """

    path: str
    name: str = ""
    writable: bool = True
    may_vanish: bool = False


class PartedRoot(SeveralRoots):
    """The parts of a tree.

    Raises OSError when a folder that may not vanish cannot be opened, ValueError when a name is no file name.
    """

    def __init__(self, parts: Sequence[RootPart]) -> None:
        self._writable = {_checked(part.name): part.writable for part in parts}
        if len(self._writable) != len(parts):
            raise ValueError("two parts of the served tree have the same name")
        self._roots: dict[bytes, Root] = {}
        with contextlib.ExitStack() as opened:
            for part in parts:
                root = self._roots[os.fsencode(part.name)] = _open(part)
                opened.callback(root.close)
            opened.pop_all()

    def close(self) -> None:
        for root in self._roots.values():
            root.close()

    @contextlib.contextmanager
    def at(self, path: bytes, *, changing: bool = False) -> Iterator[tuple[Root, bytes]]:
        _, name, *rest = path.split(b"/", 2)
        if name not in self._roots:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        yield self._roots[name], b"/" + b"".join(rest)

    def is_top(self, path: bytes) -> bool:
        return path == b"/" or path[1:] in self._roots

    def may_change(self, path: bytes) -> bool:
        return self._writable.get(path.split(b"/", 2)[1], False)

    def require_writable(self, path: bytes) -> None:
        if not self.may_change(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        with contextlib.suppress(FileNotFoundError), self.at(path) as (root, rest):
            root.require_writable(rest)

    def stat(self, path: bytes) -> os.stat_result:
        if path != b"/":
            return super().stat(path)
        for root in self._roots.values():
            with contextlib.suppress(OSError):  # it may be missing
                return root.stat(b"/")
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def require_folder(self, path: bytes) -> None:
        if path != b"/":
            super().require_folder(path)

    @contextlib.contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        if self.is_top(path):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        with super().parent(path) as found:
            yield found

    def children(self, path: bytes) -> Iterator[tuple[str, os.stat_result, str | None]]:
        if path != b"/":
            yield from super().children(path)
            return
        for name, root in self._roots.items():
            with contextlib.suppress(OSError):  # one that is missing is not listed
                found = root.stat(b"/")
                yield os.fsdecode(name), found, None


def open_parts(parts: Sequence[RootPart]) -> Root:
    """One part alone without a name is the whole tree. Raises OSError, ValueError."""
    return _open(parts[0]) if len(parts) == 1 and not parts[0].name else PartedRoot(parts)


def _open(part: RootPart) -> Root:
    return VanishingRoot(part.path) if part.may_vanish else open_root(part.path)


def _checked(name: str) -> bytes:
    encoded = os.fsencode(name)
    if normalize(b"/" + encoded) != b"/" + encoded or encoded.count(b"/") or not encoded or encoded == b"~":
        raise ValueError(f"not the name of a folder: {name!r}")
    return encoded
