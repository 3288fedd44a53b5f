"""The account of an instance that root starts: neither root, nor one that runs other programs.

`make up` by root gives a home of root's to the system account `waybill`, creates that account if necessary, and goes
on as this account. A home of another account runs as its owner. All other commands go on as the owner, too.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from transferapi.config import CHECKOUT

from .errors import StackError
from .home import Home
from .places import account_reaches, drop_to, may_read_all, wheel_folder

NAME = "waybill"
USERADD_SECONDS = 30
#: The parts of the checkout that processes of an instance load.
ROOMS = ("deploy", "endpoints", "identity", "transferapi", "webui", "workers")
#: Only root may use lower ports (ip(7), net.ipv4.ip_unprivileged_port_start).
FIRST_OPEN_PORT = 1024


def own_account() -> pwd.struct_passwd:
    """The system account `waybill`, created if there is none; for root only. Raises StackError."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(NAME)
    with _one_creator():
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(NAME)
        reason = _create()
        try:
            return pwd.getpwnam(NAME)
        except KeyError:
            raise StackError(
                f"Waybill does not run as root, and the account {NAME!r} could not be made ({reason}): make it, or "
                "start as an ordinary user, or give WAYBILL_HOME to the account that is to run it"
            ) from None


def _create() -> str:
    """Run `useradd`; returns what it or the system says where it fails."""
    program = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if program is None:
        return "there is no `useradd`"
    words = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    words += ["--shell", "/usr/sbin/nologin", "--comment", "Waybill", NAME]
    try:
        told = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=USERADD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return told.stderr.strip()


@contextlib.contextmanager
def _one_creator() -> Iterator[None]:
    """One process creates the account at a time. Raises StackError after 60 s.

    `useradd` looks whether the account exists before it locks the files: of two that run at once, the second replaces
    the account of the first by one with another uid.
    """
    folder = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(2 * USERADD_SECONDS * 10):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.1)
        else:
            raise StackError(f"another process is creating the account {NAME!r}, and does not end: look for `useradd`")
        yield
    finally:
        os.close(folder)


def owner_of(home: Home) -> pwd.struct_passwd | None:
    """The account as which root's commands go on; None: root, where root has the home, or it is missing.

    Raises StackError.
    """
    try:
        found = home.path.stat()
    except OSError:
        return None
    if found.st_uid == 0 or not stat.S_ISDIR(found.st_mode):
        return None
    try:
        return pwd.getpwuid(found.st_uid)
    except KeyError:
        raise StackError(f"{home.path} belongs to uid {found.st_uid}, which is no account of this machine") from None


def take_over(home: Home, account: pwd.struct_passwd) -> None:
    """Give a home of root's and all its files to the account, and remove the access of everybody else.

    The home itself comes last: until then it is root's, and the next start continues where this one was stopped. Links
    are not followed, and other file systems are left alone. Raises StackError, also while an instance runs.
    """
    try:
        home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.path.chmod(0o700)
        lock = home.acquire()
        try:
            top = home.path.resolve()
            device = top.stat().st_dev
            for path, folders, files, folder in os.fwalk(top, topdown=False):
                for name in (*folders, *files):
                    _give(Path(path, name), folder, device, account)
            os.chown(top, account.pw_uid, account.pw_gid)
        finally:
            os.close(lock)
    except OSError as error:
        raise StackError(f"cannot use WAYBILL_HOME {home.path}: {error.strerror}") from error


def _give(path: Path, folder: int, device: int, account: pwd.struct_passwd) -> None:
    found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    if found.st_dev != device or (found.st_uid, found.st_gid) == (account.pw_uid, account.pw_gid):
        return
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        # The link may lead to any file of the machine: in an earlier version, other programs could write in here.
        raise StackError(f"{path} has another name elsewhere (a hard link): copy it or remove it, then start again")
    os.chown(path.name, account.pw_uid, account.pw_gid, dir_fd=folder, follow_symlinks=False)


def go_on_as(account: pwd.struct_passwd, home: Home, port: int) -> None:
    """Run this program again as the account, in this process; does not return. Raises StackError.

    The account of a person gets no right to files that it does not have itself.
    """
    if account.pw_name != NAME and (closed := closed_to(account, home)):
        raise StackError(f"{home.path} belongs to {account.pw_name}, who cannot reach {closed}: start as that account")
    words = drop_to(account, *needed(home), keep=("net_bind_service",) if port < FIRST_OPEN_PORT else (), dies=False)
    environment = {**os.environ, "HOME": str(home.path), "WAYBILL_HOME": str(home.path)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(words[0], [*words, sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606


def rights_over_files() -> str:
    """The rights that the capability for closed folders gives, in words."""
    return "read all files of this machine" if may_read_all() else "read and change all files of this machine"


def compile_for_all() -> None:
    """The account may not write to root's checkout, and each process would need seconds to compile all of it."""
    with contextlib.suppress(OSError):
        for room in ROOMS:
            compileall.compile_dir(CHECKOUT / room, quiet=2)


def needed(home: Home) -> list[Path]:
    """The paths that the account must reach: the home, the program, its packages and its Python."""
    packages = wheel_folder("django") / "__init__.py"
    return [home.path, CHECKOUT / "deploy" / "cli.py", packages, Path(sys.prefix, "pyvenv.cfg"), Path(os.__file__)]


def closed_to(account: pwd.struct_passwd, home: Home) -> Path | None:
    """A path that the account needs and cannot reach without a capability; None if it reaches all."""
    return next((path for path in needed(home) if not account_reaches(account, path)), None)
