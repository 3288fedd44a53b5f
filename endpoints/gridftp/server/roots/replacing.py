"""A file in the place of another one, in one step: the name is never missing, and always that of a whole file.

The file that is replaced keeps its mode, owner, group, ACL and extended attributes (xattr(7)). Where it would lose any
of them, or one of its hard links, or where its folder takes no other file, it is left as it is (`WriteInPlaceError`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat

from endpoints.gridftp.server.errors import WriteInPlaceError

from .root import BINARY, LIBC, Root, require_file

_ACL = "system.posix_acl_access"
#: They belong to the octets of a file: the kernel itself removes them when it is written.
_OF_CONTENT = frozenset(("security.capability", "security.ima", "security.evm"))
_READ = os.O_RDONLY | BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_WRITE = _READ | os.O_WRONLY
_MODE = 0o777
#: renameat2(2): glibc from 2.28 on.
_renameat2 = getattr(LIBC, "renameat2", None)
_NOREPLACE = 1


class NameInFolder:
    """A name in a folder. folder: for `dir_fd`; None: the name is a whole path."""

    __slots__ = ("folder", "name")

    def __init__(self, folder: int | None, name: bytes) -> None:
        self.folder = folder
        self.name = name

    def look(self) -> os.stat_result | None:
        """The own status of what is there; None where nothing is. Raises OSError."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int) -> int:
        return os.open(self.name, flags, dir_fd=self.folder)


class Replacing:
    """Replaces files one after another. The last folder stays open until `forget`: most files are in one."""

    def __init__(self) -> None:
        self._root: Root | None = None
        self._path = b""
        self._folder: int | None = None
        self._prefix = b""
        self._opened = contextlib.ExitStack()

    def forget(self) -> None:
        """Close the folder."""
        if self._root is not None:
            self._root = None
            self._opened.close()

    def replace(self, root: Root, written: bytes, path: bytes) -> None:
        """Give the file `written` the name `path`; what a symlink there leads to is replaced, as STOR would write it.

        A new name is given as by RNTO. Raises OSError, WriteInPlaceError.
        """
        above, _, name = path.rpartition(b"/")
        if root is not self._root or above != self._path:
            self._open(root, path, above)
        target = NameInFolder(self._folder, self._prefix + name)
        old_above, _, old_name = written.rpartition(b"/")
        if old_above == above:
            _replace(root, path, NameInFolder(self._folder, self._prefix + old_name), target)
        else:
            with root.parent(written) as (folder, old_name):
                _replace(root, path, NameInFolder(folder, old_name), target)

    def _open(self, root: Root, path: bytes, above: bytes) -> None:
        self.forget()
        with contextlib.ExitStack() as opening:
            folder, name = opening.enter_context(root.parent(path))
            self._folder, self._prefix = folder, name[: len(name) - len(path) + len(above) + 1]
            self._opened = opening.pop_all()
        self._root, self._path = root, above


def _replace(root: Root, path: bytes, written: NameInFolder, target: NameInFolder) -> None:
    if _give_new_name(written, target):
        return
    there = target.look()
    if there is not None and stat.S_ISLNK(there.st_mode):
        with root.behind_links(path) as (folder, name):
            behind = NameInFolder(folder, name)
            _exchange(written, behind, behind.look())
    else:
        _exchange(written, target, there)


def _give_new_name(written: NameInFolder, target: NameInFolder) -> bool:
    """Rename in one call to a name that nothing has; False if the system cannot, or if something has the name."""
    if _renameat2 is None or written.folder is None or target.folder is None:
        return False
    while _renameat2(written.folder, written.name, target.folder, target.name, _NOREPLACE):
        number = ctypes.get_errno()
        # EINVAL: this file system cannot do it; ENOSYS, EPERM: the kernel or a container.
        if number in (errno.EEXIST, errno.EINVAL, errno.ENOSYS, errno.EPERM):
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), target.name)
    return True


def _exchange(written: NameInFolder, target: NameInFolder, there: os.stat_result | None) -> None:
    if there is not None:
        require_file(there)
        _keep_attributes(written, target)
    try:
        # On Windows os.rename replaces nothing.
        os.replace(written.name, target.name, src_dir_fd=written.folder, dst_dir_fd=target.folder)
    except OSError as error:
        if there is None or error.errno not in (errno.EACCES, errno.EPERM, errno.EXDEV):
            raise
        raise WriteInPlaceError(f"its folder takes no other file ({error.strerror})") from error


def _keep_attributes(written: NameInFolder, target: NameInFolder) -> None:
    """Give the new file the mode, owner, ACL and attributes of the old one.

    Raises OSError if `written` is no file, or STOR could not write `target`; WriteInPlaceError.
    """
    with contextlib.ExitStack() as opened:
        new_fd = written.open(_READ)
        opened.callback(os.close, new_fd)
        old_fd = target.open(_WRITE)
        opened.callback(os.close, old_fd)
        new, old = os.fstat(new_fd), os.fstat(old_fd)
        require_file(new)
        if old.st_nlink > 1:
            raise WriteInPlaceError("it has several hard links")
        if os.name == "nt":
            return
        try:
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.chown(new_fd, old.st_uid, old.st_gid)
            if hasattr(os, "listxattr"):
                _keep_extended(new_fd, old_fd)
            os.chmod(new_fd, stat.S_IMODE(old.st_mode) & _MODE)
        except OSError as error:
            raise WriteInPlaceError(f"its owner, mode or attributes would be lost ({error.strerror})") from error


def _keep_extended(new_fd: int, old_fd: int) -> None:
    """Give the new file the extended attributes of the old one.

    An ACL that only the new file has comes from a default ACL of the folder, and is removed.
    """
    new, old = os.listxattr(new_fd), os.listxattr(old_fd)
    for name in old:
        value = os.getxattr(old_fd, name)
        if name in _OF_CONTENT or (name in new and os.getxattr(new_fd, name) == value):
            continue
        try:
            os.setxattr(new_fd, name, value)
        except PermissionError:
            # A label of the system, as SELinux's: it has given the new file one as well.
            if not name.startswith("security."):
                raise
    if _ACL in new and _ACL not in old:
        os.removexattr(new_fd, _ACL)
