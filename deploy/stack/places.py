"""Folders of the embedded stack, and commands that run as another account than root."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import StackError

#: sockaddr_un has room for 108 octets, one of them the final NUL (unix(7)).
SOCKET_PATH_LIMIT = 107
#: The longest name of a socket of our servers.
_LONGEST_SOCKET_NAME = "/postgres/.s.PGSQL.5432"

CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2


def private_folder(path: Path, owner: pwd.struct_passwd | None = None, mode: int = 0o700) -> Path:
    """Create a folder with this mode, or use an existing one of our own. Raises StackError."""
    uid = owner.pw_uid if owner else os.geteuid()
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StackError(f"{path} is not a folder")
        if found.st_uid != uid:
            if found.st_uid != os.geteuid() or owner is None:
                raise StackError(f"{path} belongs to somebody else (uid {found.st_uid})")
            os.chown(path, owner.pw_uid, owner.pw_gid)
        if stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)
    except OSError as error:
        raise StackError(f"cannot use the folder {path}: {error.strerror}") from error
    return path


def socket_folder(home: Path) -> Path:
    """The folder of this home's sockets: in the home, or a short folder of its own where the path is too long."""
    inside = home / "run"
    if len(os.fsencode(inside)) + len(_LONGEST_SOCKET_NAME) <= SOCKET_PATH_LIMIT:
        return inside
    digest = hashlib.blake2b(os.fsencode(home), digest_size=8).hexdigest()
    short = Path(tempfile.gettempdir()) / f"waybill-{os.geteuid()}-{digest}"
    if len(os.fsencode(short)) + len(_LONGEST_SOCKET_NAME) > SOCKET_PATH_LIMIT:
        short = Path("/tmp") / short.name  # noqa: S108 - created with 0700, and refused when it is not ours
    return short


def make_socket_folder(home: Path) -> Path:
    """A private folder. Where root makes it, the unprivileged account may pass through it to its own folder."""
    return private_folder(socket_folder(home), mode=0o711 if os.geteuid() == 0 else 0o700)


def wheel_folder(package: str) -> Path:
    """The folder of an installed package, without importing it (some take 0.2 s)."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise StackError(f"the package {package} is not installed: run `make venv`, or install our extra `embedded`")
    return Path(next(iter(spec.submodule_search_locations)))


@contextlib.contextmanager
def lock_of(folder: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of the folder. Raises StackError with this sentence where another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StackError(refusal) from None
    finally:
        os.close(descriptor)


def account_reaches(account: pwd.struct_passwd, path: Path) -> bool:
    """Whether the account may pass every folder above `path` and enter `path` (no groups, no ACLs)."""
    return all(_may_search(account, folder) for folder in path.resolve().parents)


def _may_search(account: pwd.struct_passwd, folder: Path) -> bool:
    found = folder.stat()
    if found.st_uid == account.pw_uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.pw_gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def drop_to(account: pwd.struct_passwd, *needed: Path, keep: tuple[str, ...] = (), dies: bool = True) -> list[str]:
    """The words before a command that run it as `account`, with access to the `needed` paths.

    Where a folder above them is closed to the account (a checkout under /root), the command keeps one capability, to
    pass closed folders. The alternatives are to open folders of others, or to keep data outside of the home.
    `no_setuid_fixup` makes access(2) respect it too (capabilities(7)).
    keep: further capabilities, as setpriv(1) names them. dies: it gets SIGKILL when its parent ends.
    """
    words = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    words += ["--no-new-privs", *(["--pdeathsig=KILL"] if dies else [])]
    if not all(account_reaches(account, path) for path in needed):
        keep = (*keep, _pass_folders_capability())
    if not keep:
        return [*words, "--inh-caps=-all", "--"]
    kept = ",".join(("-all", *(f"+{name}" for name in keep)))
    words += [f"--inh-caps={kept}", f"--ambient-caps={kept}", f"--bounding-set={kept}"]
    return [*words, "--securebits=+no_setuid_fixup", "--"]


def may_read_all() -> bool:
    """Whether a capability lets this process read all files; it does not let it change them (capabilities(7))."""
    return bool(_permitted_capabilities() >> CAP_DAC_READ_SEARCH & 1)


def _pass_folders_capability() -> str:
    if may_read_all():
        return "dac_read_search"
    # The capabilities of a container by default.
    if _permitted_capabilities() >> CAP_DAC_OVERRIDE & 1:
        return "dac_override"
    raise StackError(
        "nothing of Waybill runs as root, and a folder above WAYBILL_HOME, the checkout or its Python is closed to "
        "others: choose places that everybody may pass to, or run as an ordinary user"
    )


def _permitted_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0
