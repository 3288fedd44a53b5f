"""The list of all that a box has created on this machine: `remove` removes these things, and nothing else.

A path is written into the list (and flushed to the disk) before it is created. So a setup that is killed at any moment
leaves nothing that is not on the list.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

from deploy.endpoint.authority import beside, replace_file
from deploy.endpoint.boxed.errors import BoxError

NAME = "made"
Owner = tuple[int, int]


class BoxRecord:
    """The list of the box in `folder`, locked until `close`. Raises BoxError."""

    def __init__(self, folder: Path, *, create: bool) -> None:
        self.root = folder
        self.path = folder / NAME
        self.changed = False
        if create:
            self._make_root()
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
            self._descriptor = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise BoxError(f"cannot open {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise BoxError(f"another `box` is running on {folder}: try again when it has ended") from None
        self.paths = self._read()
        if create:
            self.note(folder)

    def _make_root(self) -> None:
        with contextlib.suppress(FileExistsError):
            try:
                self.root.mkdir(mode=0o755)
            except FileNotFoundError:
                raise BoxError(f"cannot make {self.root}: make {self.root.parent} first") from None
            except PermissionError:
                raise BoxError(f"cannot make {self.root}: run this with sudo, or choose another --folder") from None
        if not self.root.is_dir():
            raise BoxError(f"{self.root} is not a folder")
        if not self.path.exists() and any(self.root.iterdir()):
            raise BoxError(f"{self.root} holds things that are not of a box: choose another --folder")

    def _read(self) -> list[Path]:
        """The listed paths. A line that a crash has cut off names something that was not created yet."""
        with open(self._descriptor, "rb", closefd=False) as file:
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.ftruncate(self._descriptor, len(whole))
        return [Path(os.fsdecode(line)) for line in whole.splitlines()]

    def note(self, path: Path) -> None:
        """Write into the list that the box may create `path`."""
        if path in self.paths:
            return
        os.write(self._descriptor, os.fsencode(path) + b"\n")
        os.fsync(self._descriptor)
        self.paths.append(path)

    def has(self, path: Path) -> bool:
        return path in self.paths

    def folder(self, path: Path, mode: int = 0o755, owner: Owner | None = None) -> None:
        """Create a folder, or correct its mode and owner. Raises BoxError where it belongs to another account."""
        self._claim(path)
        if not path.is_dir():
            path.mkdir()
            self.changed = True
        self.own(path, mode, owner)

    def file(self, path: Path, content: bytes | str, mode: int = 0o644, owner: Owner | None = None) -> bool:
        """Write a file unless it has this content. Returns whether it changed. Raises BoxError where it is not ours"""
        data = content.encode() if isinstance(content, str) else content
        self._claim(path)
        different = not path.exists() or path.read_bytes() != data
        if different:
            replace_file(path, data, mode, owner)
            self.changed = True
        self.own(path, mode, owner)
        return different

    def _claim(self, path: Path) -> None:
        if not self.has(path) and os.path.lexists(path):
            raise BoxError(f"{path} is there already, and not of this box: move it away")
        self.note(path)

    @staticmethod
    def own(path: Path, mode: int, owner: Owner | None) -> None:
        """Set the owner and mode of a path of the box, also of one that another module has created."""
        found = path.lstat()
        if owner is not None and (found.st_uid, found.st_gid) != owner:
            os.chown(path, *owner, follow_symlinks=False)
        if stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)

    def remove_all(self) -> list[Path]:
        """Remove the listed paths, the last first. Folders with other files stay, and are returned."""
        left = []
        for path in reversed(self.paths):
            if path == self.root:
                continue
            _unlink(beside(path))
            if not _unlink(path):
                left.append(path)
        if not left and {one.name for one in self.root.iterdir()} <= {NAME}:
            self.path.unlink()
            with contextlib.suppress(OSError):  # the folder may have been there before, for example as a mount point
                self.root.rmdir()
        elif not left:
            left.append(self.root)
        return left

    def close(self) -> None:
        os.close(self._descriptor)


def _unlink(path: Path) -> bool:
    """Remove a path; returns whether it is gone now."""
    try:
        kind = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    if not stat.S_ISDIR(kind):
        path.unlink()
        return True
    try:
        path.rmdir()
    except OSError:
        return False
    return True
