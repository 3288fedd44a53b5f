"""Commands on files and folders that move no data (RFC 959, RFC 3659; MFMT as in draft-somers-ftp-mfxx)."""

from __future__ import annotations

import dataclasses
import errno
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from endpoints.gridftp.facts import format_time

from .confined import Confined, parse_grounds
from .errors import RefusedError
from .registry import command, site
from .root import require_file

if TYPE_CHECKING:
    from .session import Session


@command("SIZE")
def size(session: Session, argument: bytes) -> None:
    status = session.service.root.stat(session.path(argument))
    require_file(status)
    session.reply(213, str(status.st_size))


@command("MDTM")
def modification_time(session: Session, argument: bytes) -> None:
    status = session.service.root.stat(session.path(argument))
    session.reply(213, format_time(datetime.fromtimestamp(status.st_mtime, UTC)))


@command("MFMT")
def modify_modification_time(session: Session, argument: bytes) -> None:
    session.require_writable()
    stamp, _, path = argument.partition(b" ")
    moment = _parse_time(stamp)
    with session.service.root.opened_to_change(session.path_to_change(path)) as fd:
        os.utime(fd, ns=(os.fstat(fd).st_atime_ns, moment * 10**9))
    session.say(b"213 Modify=%b; %b\r\n" % (stamp, path))


@command("MKD")
def make_folder(session: Session, argument: bytes) -> None:
    session.require_writable()
    path = session.path_to_change(argument)
    if session.service.root.is_top(path):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    with session.service.root.parent(path) as (folder, name):
        os.mkdir(name, dir_fd=folder)
    session.say(b'257 Directory "%b" created successfully.\r\n' % path.replace(b'"', b'""'))


@command("RMD")
def remove_folder(session: Session, argument: bytes) -> None:
    session.require_writable()
    with session.service.root.parent(session.path_to_change(argument)) as (folder, name):
        os.rmdir(name, dir_fd=folder)
    session.reply(250, "OK.")


@command("DELE")
def delete(session: Session, argument: bytes) -> None:
    """A symlink is removed itself, never what it points to."""
    session.require_writable()
    with session.service.root.parent(session.path_to_change(argument)) as (folder, name):
        os.unlink(name, dir_fd=folder)
    session.reply(250, "OK.")


@command("RNFR")
def rename_from(session: Session, argument: bytes) -> None:
    session.rename_from = None
    session.require_writable()
    path = session.path_to_change(argument)
    with session.service.root.parent(path) as (folder, name):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    session.rename_from = path
    session.reply(350, "OK. Send RNTO with destination name.")


@command("RNTO")
def rename_to(session: Session, argument: bytes) -> None:
    session.require_writable()
    old, session.rename_from = session.rename_from, None
    if old is None:
        raise RefusedError(503, "RNTO must follow a successful RNFR.")
    root, new = session.service.root, session.path_to_change(argument)
    root.require_replaceable(new)
    with root.parent(old) as (old_folder, old_name), root.parent(new) as (folder, name):
        os.rename(old_name, name, src_dir_fd=old_folder, dst_dir_fd=folder)
    session.reply(250, "OK.")


@site("SYMLINKFROM")
def symlink_from(session: Session, argument: bytes) -> None:
    """`SITE SYMLINKFROM target`, before SYMLINKTO: any text. Where it leads is asked when somebody follows it."""
    session.require_writable()
    session.link_target = argument
    if not argument:
        raise RefusedError(501, "SITE SYMLINKFROM: a target is wanted.")
    session.reply(350, "OK. Send SITE SYMLINKTO with symlink name.")


@site("SYMLINKTO")
def symlink_to(session: Session, argument: bytes) -> None:
    session.require_writable()
    target, session.link_target = session.link_target, b""
    if not target:
        raise RefusedError(503, "SITE SYMLINKTO must follow a successful SITE SYMLINKFROM.")
    with session.service.root.parent(session.path_to_change(argument)) as (folder, name):
        os.symlink(target, name, dir_fd=folder)
    session.reply(250, "OK.")


@site("CHMOD")
def change_mode(session: Session, argument: bytes) -> None:
    """`SITE CHMOD 644 path`. No set-user-id and its like: nobody asks for them over a network in good faith."""
    session.require_writable()
    digits, _, path = argument.partition(b" ")
    if not (0 < len(digits) < 5 and all(digit in b"01234567" for digit in digits) and int(digits, 8) <= 0o777):
        raise RefusedError(501, "SITE CHMOD: an octal mode up to 777 is wanted.")
    with session.service.root.opened_to_change(session.path_to_change(path)) as fd:
        os.fchmod(fd, int(digits, 8))
    session.reply(250, "OK.")


@site("TRNC")
def truncate(session: Session, argument: bytes) -> None:
    """`SITE TRNC length path`: what a restarted STOR does not cut off."""
    session.require_writable()
    length, _, path = argument.partition(b" ")
    if not length.isdigit() or len(length) > 18:
        raise RefusedError(501, "SITE TRNC: a length is wanted.")
    with session.service.root.opened_file(session.path_to_change(path), os.O_WRONLY) as (fd, _status):
        os.ftruncate(fd, int(length))
    session.reply(250, "OK.")


@site("RESTRICT")
def restrict(session: Session, argument: bytes) -> None:
    """`SITE RESTRICT RW/a/b,R/c`: once, and nothing widens it again."""
    if isinstance(session.service.root, Confined):
        raise RefusedError(500, "Session restricted paths list already set.")
    confined = Confined(session.service.root, parse_grounds(argument))
    session.service = dataclasses.replace(session.service, root=confined)
    session.rename_from = None
    session.reply(250, "OK.")


def _parse_time(stamp: bytes) -> int:
    """YYYYMMDDHHMMSS, UTC; fractions are cut off. Seconds since 1970."""
    try:
        text = stamp.decode("ascii").partition(".")[0]
        if len(text) != 14 or not text.isdigit():
            raise ValueError(text)
        return int(datetime.strptime(text + "+0000", "%Y%m%d%H%M%S%z").timestamp())
    except ValueError:
        raise RefusedError(501, "A time is wanted: YYYYMMDDHHMMSS.") from None
