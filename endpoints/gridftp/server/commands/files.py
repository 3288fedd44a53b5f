"""Commands on files and folders that move no data (RFC 959, RFC 3659; MFMT as in draft-somers-ftp-mfxx)."""

from __future__ import annotations

import dataclasses
import errno
import os
from datetime import datetime

from endpoints.gridftp.facts import format_time, moment_of
from endpoints.gridftp.server.errors import CommandRefusedError, os_error_reply
from endpoints.gridftp.server.roots.restricted import RestrictedRoot, parse_allowed
from endpoints.gridftp.server.roots.root import require_file
from endpoints.gridftp.server.session import ServerSession

from .table import command, site, waybill


@command("SIZE", feature="SIZE")
def size(session: ServerSession, argument: bytes) -> None:
    status = session.service.root.stat(session.path(argument))
    require_file(status)
    session.reply(213, str(status.st_size))


@command("MDTM", feature="MDTM")
def modification_time(session: ServerSession, argument: bytes) -> None:
    status = session.service.root.stat(session.path(argument))
    moment = moment_of(status.st_mtime)
    if moment is None:
        raise OSError(errno.EOVERFLOW, "The modification time is outside of the years 1 to 9999")
    session.reply(213, format_time(moment))


@command("AVBL", feature="AVBL")
def free_space(session: ServerSession, argument: bytes) -> None:
    """Octets that may still be written in a folder (draft-peterson-streamlined-ftp-command-extensions section 4)."""
    session.reply(213, str(session.service.root.free_space(session.path(argument or b"."))))


@command("MFMT", feature="MFMT")
def modify_modification_time(session: ServerSession, argument: bytes) -> None:
    session.require_writable()
    stamp, _, path = argument.partition(b" ")
    moment = _parse_time(stamp)
    with session.service.root.opened_to_change(session.path_to_change(path)) as fd:
        os.utime(fd, ns=(os.stat(fd).st_atime_ns, moment * 10**9))
    session.say(b"213 Modify=%b; %b\r\n" % (stamp, path))


@command("MKD", makes_name=True)
def make_folder(session: ServerSession, argument: bytes) -> None:
    path = session.path_to_change(argument)
    if session.service.root.is_top(path):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    with session.service.root.parent(path) as (folder, name):
        os.mkdir(name, dir_fd=folder)
    session.say(b'257 Directory "%b" created successfully.\r\n' % path.replace(b'"', b'""'))


@command("RMD")
def remove_folder(session: ServerSession, argument: bytes) -> None:
    with session.service.root.parent(session.path_to_change(argument)) as (folder, name):
        os.rmdir(name, dir_fd=folder)
    session.reply(250, "OK.")


@command("DELE")
def delete(session: ServerSession, argument: bytes) -> None:
    """A symlink is removed itself, never what it points to."""
    with session.service.root.parent(session.path_to_change(argument)) as (folder, name):
        os.unlink(name, dir_fd=folder)
    session.reply(250, "OK.")


@command("RNFR")
def rename_from(session: ServerSession, argument: bytes) -> None:
    session.rename_from = None
    path = session.path_to_change(argument)
    with session.service.root.parent(path) as (folder, name):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    session.rename_from = path
    session.reply(350, "OK. Send RNTO with destination name.")


@command("RNTO", makes_name=True)
def rename_to(session: ServerSession, argument: bytes) -> None:
    session.require_writable()
    old, session.rename_from = session.rename_from, None
    if old is None:
        raise CommandRefusedError(503, "RNTO must follow a successful RNFR.")
    root, new = session.service.root, session.path_to_change(argument)
    root.require_replaceable(new)
    with root.parent(old) as (old_folder, old_name), root.parent(new) as (folder, name):
        # On Windows os.rename replaces nothing.
        os.replace(old_name, name, src_dir_fd=old_folder, dst_dir_fd=folder)
    session.reply(250, "OK.")


@waybill("REPLACE", feature="WAYBILL REPLACE")
def replace_(session: ServerSession, argument: bytes) -> None:
    """`SITE WAYBILL REPLACE 12 /folder/.tmp /folder/name`: RNFR and RNTO in one; what is replaced keeps its attributes.

    The number is that of the octets of the first path: either may contain spaces. 504: write the file in place.
    """
    digits, _, paths = argument.partition(b" ")
    length = int(digits) if digits.isdigit() and len(digits) < 6 else 0
    if not length or paths[length : length + 1] != b" ":
        raise CommandRefusedError(501, "SITE WAYBILL REPLACE: expected the octets of the first path, and two paths.")
    try:
        written, path = session.path_to_change(paths[:length]), session.path_to_change(paths[length + 1 :])
        session.replacing.replace(session.service.root, written, path)
    except OSError as error:
        session.say(os_error_reply(error, "REPLACE", naming=True))
    else:
        session.say(b"250 OK.\r\n")


@site("SYMLINKFROM", feature="SITE SYMLINKFROM")
def symlink_from(session: ServerSession, argument: bytes) -> None:
    """`SITE SYMLINKFROM target`, before SYMLINKTO: any text. It is resolved only when the symlink is followed."""
    session.require_writable()
    session.link_target = argument
    if not argument:
        raise CommandRefusedError(501, "SITE SYMLINKFROM: expected a target.")
    session.reply(350, "OK. Send SITE SYMLINKTO with symlink name.")


@site("SYMLINKTO", feature="SITE SYMLINKTO")
def symlink_to(session: ServerSession, argument: bytes) -> None:
    session.require_writable()
    target, session.link_target = session.link_target, b""
    if not target:
        raise CommandRefusedError(503, "SITE SYMLINKTO must follow a successful SITE SYMLINKFROM.")
    path = session.path_to_change(argument)
    session.service.root.require_link_target(path, target)
    with session.service.root.parent(path) as (folder, name):
        os.symlink(target, name, dir_fd=folder)
    session.reply(250, "OK.")


@site("CHMOD")
def change_mode(session: ServerSession, argument: bytes) -> None:
    """`SITE CHMOD 644 path`. Set-user-id, set-group-id and the sticky bit are refused."""
    session.require_writable()
    digits, _, path = argument.partition(b" ")
    if not (0 < len(digits) < 5 and all(digit in b"01234567" for digit in digits) and int(digits, 8) <= 0o777):
        raise CommandRefusedError(501, "SITE CHMOD: expected an octal mode up to 777.")
    with session.service.root.opened_to_change(session.path_to_change(path)) as fd:
        os.chmod(fd, int(digits, 8))
    session.reply(250, "OK.")


@site("TRNC")
def truncate(session: ServerSession, argument: bytes) -> None:
    """`SITE TRNC length path`: removes the rest that a restarted STOR leaves."""
    session.require_writable()
    length, _, path = argument.partition(b" ")
    if not length.isdigit() or len(length) > 18:
        raise CommandRefusedError(501, "SITE TRNC: expected a length.")
    with session.service.root.opened_file(session.path_to_change(path), os.O_WRONLY) as (fd, _status):
        os.ftruncate(fd, int(length))
    session.reply(250, "OK.")


@site("RESTRICT")
def restrict(session: ServerSession, argument: bytes) -> None:
    """`SITE RESTRICT RW/a/b,R/c`: once in a session; it cannot be undone."""
    if isinstance(session.service.root, RestrictedRoot):
        raise CommandRefusedError(500, "Session restricted paths list already set.")
    confined = RestrictedRoot(session.service.root, parse_allowed(argument))
    session.service = dataclasses.replace(session.service, root=confined)
    session.rename_from = None
    session.reply(250, "OK.")


def _parse_time(stamp: bytes) -> int:
    """YYYYMMDDHHMMSS, UTC; fractions are ignored. Returns seconds since 1970."""
    try:
        text = stamp.decode("ascii").partition(".")[0]
        if len(text) != 14 or not text.isdigit():
            raise ValueError(text)
        return int(datetime.strptime(text + "+0000", "%Y%m%d%H%M%S%z").timestamp())
    except ValueError:
        raise CommandRefusedError(501, "Expected a time: YYYYMMDDHHMMSS.") from None
