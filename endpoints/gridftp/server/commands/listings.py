"""Listings: MLST, MLSD (RFC 3659 section 7), MLSC over the control channel, LIST, NLST and STAT (RFC 959).

A name with a control character cannot be in a line nor in a command. It is listed with a question mark for each of
them, so that no reader takes the folder for one without it, and in the formats with facts also percent-encoded
(`facts.ENCODED_NAME`). A symlink is listed with the facts of its target, and the target's path as a fact; if the target
is missing or outside, with the facts of the symlink.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from endpoints.gridftp.facts import EPOCH, Entry, format_line, moment_of, printable_name
from endpoints.gridftp.server.data.send import Sender
from endpoints.gridftp.server.roots.root import Root
from endpoints.gridftp.server.session import ServerSession

from .table import command
from .transfers import complete, outgoing

try:
    from grp import getgrgid
    from pwd import getpwuid
except ImportError:  # Windows: accounts have no numbers

    def getpwuid(uid: int, /) -> Any:  # type: ignore[misc]
        raise KeyError(uid)

    getgrgid = getpwuid  # type: ignore[assignment]

#: Octets of a listing in memory at once, and of one reply block of MLSC.
_CHUNK = 64 * 1024
_OPTIONS = re.compile(rb"^(?:-[a-zA-Z]+(?: +|$))+")
_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "OS.unix=slink",
    stat.S_IFIFO: "OS.unix=pipe",
    stat.S_IFSOCK: "OS.unix=socket",
    stat.S_IFCHR: "OS.unix=chr",
    stat.S_IFBLK: "OS.unix=blk",
}


def _offered_facts(session: ServerSession) -> str:
    """The line MLST of FEAT (RFC 3659 section 7.8): selected facts have an asterisk."""
    return "MLST " + "".join(f"{fact}*;" if fact in session.facts else f"{fact};" for fact in session.service.facts)


@command("MLST", feature=_offered_facts)
def facts_of_one(session: ServerSession, argument: bytes) -> None:
    path = session.path(argument or b".")
    line = format_line(_lister(session).look(path), path, session.facts)
    session.say(b"250-status of %b\r\n %b\r\n250 End.\r\n" % (path, line))


@command("MLSC", feature="MLSC")
def facts_on_control(session: ServerSession, argument: bytes) -> None:
    """Send the facts of a folder on the control channel (MLSC).

    A long listing is several preliminary replies, then the final one: the size of each is limited.
    """
    path = session.path(argument or b".")
    held = b""
    for chunk in _in_chunks(b" " + line for line in _lister(session).fact_lines(path, session.facts)):
        if held:
            session.say(b"150-Contents of %b\r\n%b150 End.\r\n" % (path, held))
            session.interrupt.check()
        held = chunk
    session.say(b"250-Contents of %b\r\n%b250 End.\r\n" % (path, held))


@command("MLSD", sends=True)
def facts_on_data(session: ServerSession, argument: bytes) -> None:
    path = session.path(argument or b".")
    _send(session, path, _lister(session).fact_lines(path, session.facts))


@command("NLST", sends=True)
def names_on_data(session: ServerSession, argument: bytes) -> None:
    path = session.path(_OPTIONS.sub(b"", argument) or b".")
    _send(session, path, _lister(session).names(path))


@command("LIST", sends=True)
def lines_on_data(session: ServerSession, argument: bytes) -> None:
    path = session.path(_OPTIONS.sub(b"", argument) or b".")
    _send(session, path, _lister(session).long_lines(path))


@command("STAT")
def status(session: ServerSession, argument: bytes) -> None:
    if not argument:
        session.reply(211, "All is well.")
        return
    path = session.path(_OPTIONS.sub(b"", argument) or b".")
    lines = _in_chunks(b" " + line for line in _lister(session).long_lines(path))
    first = next(lines, b"")
    session.say(b"213-status of %b\r\n%b" % (path, first))
    for chunk in lines:
        session.say(chunk)
        session.interrupt.check()
    session.say(b"213 End.\r\n")


def _lister(session: ServerSession) -> Lister:
    return Lister(session.service.root, read_only=session.service.read_only)


def _send(session: ServerSession, path: bytes, lines: Iterator[bytes]) -> None:
    """Send the lines on the data channel.

    The first piece is read before data connections are opened: an error needs none.
    """
    session.channel.require()
    chunks = _in_chunks(lines)
    pieces = chain(list(islice(chunks, 1)), chunks)
    connections = outgoing(session)
    sender = Sender(session.channel, session.limits)
    if session.blocks:
        sender.block_octets(connections, pieces)
    else:
        sender.stream_octets(connections[0], pieces)
    complete(session)


def _in_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > _CHUNK:
            yield b"\r\n".join([*held, b""])
            held, size = [], 0
    if held:
        yield b"\r\n".join([*held, b""])


class Lister:
    """Reads facts beneath a root. Paths are normalized; errors are OSErrors."""

    def __init__(self, root: Root, *, read_only: bool) -> None:
        self._root = root
        self._read_only = read_only

    def look(self, path: bytes) -> Entry:
        if self._root.is_top(path):
            name = os.fsdecode(path.rpartition(b"/")[2] or b"/")
            return self._entry(path, name, self._root.stat(path), None, parent_writable=False)
        found, target = self._root.look(path)
        above, _, final = path.rpartition(b"/")
        return self._child(above + b"/", os.fsdecode(final), found, target, self._writable(above or b"/"))

    def fact_lines(self, path: bytes, selection: Collection[str]) -> Iterator[bytes]:
        for entry in self._entries(path):
            yield format_line(entry, os.fsencode(entry.name), selection)

    def names(self, path: bytes) -> Iterator[bytes]:
        for name, _, _ in self._children(path):
            yield printable_name(os.fsencode(name))

    def long_lines(self, path: bytes) -> Iterator[bytes]:
        """Lines like those of `ls -l`. A path that is no folder is listed alone."""
        found = self._root.stat(path)
        if stat.S_ISDIR(found.st_mode):
            for name, found, _ in self._children(path):
                yield _long_line(name, found)
        else:
            yield _long_line(os.fsdecode(path.rpartition(b"/")[2]), found)

    def _entries(self, path: bytes) -> Iterator[Entry]:
        prefix = path.rstrip(b"/") + b"/"
        writable: bool | None = None
        for name, found, target in self._children(path):
            if writable is None:
                writable = self._writable(path)
            yield self._child(prefix, name, found, target, writable)

    def _children(self, path: bytes) -> Iterator[tuple[str, os.stat_result, str | None]]:
        return self._root.children(path)

    def _child(
        self, prefix: bytes, name: str, found: os.stat_result, target: str | None, parent_writable: bool
    ) -> Entry:
        if target is not None:
            with contextlib.suppress(OSError):
                found = self._root.stat(prefix + os.fsencode(name))
        return self._entry(prefix + os.fsencode(name), name, found, target, parent_writable=parent_writable)

    def _entry(
        self, path: bytes, name: str, found: os.stat_result, target: str | None, *, parent_writable: bool
    ) -> Entry:
        mode = found.st_mode
        read_only = self._read_only or not self._root.may_change(path)
        return Entry(
            name=name,
            kind=_TYPES.get(stat.S_IFMT(mode), "OS.unix=other"),
            size=found.st_size,
            modified=moment_of(found.st_mtime),
            mode=f"{stat.S_IMODE(mode):04o}",
            owner=_name(getpwuid, found.st_uid),
            group=_name(getgrgid, found.st_gid),
            link_target=target,
            unique=f"{found.st_dev:x}-{found.st_ino:x}",
            perm=_perm(mode, _class(found), parent_writable, read_only),
        )

    def _writable(self, path: bytes) -> bool:
        if self._read_only or not self._root.may_change(path):
            return False
        folder = self._root.stat(path)
        return _allows(folder.st_mode, _class(folder), 2)


# Our permissions by a file's mode: only a hint to the client, because the kernel decides.

_OWNER, _GROUP, _OTHER, _ROOT = 6, 3, 0, -1


def _class(found: os.stat_result) -> int:
    """The digit of a mode that applies to us, as its number of bits from the right."""
    if not hasattr(os, "geteuid"):  # Windows has other permissions than modes
        return _ROOT
    uid = os.geteuid()
    if uid == 0:
        return _ROOT
    if found.st_uid == uid:
        return _OWNER
    return _GROUP if found.st_gid in _groups() else _OTHER


@lru_cache(maxsize=1)
def _groups() -> frozenset[int]:
    return frozenset((os.getegid(), *os.getgroups()))


def _allows(mode: int, ours: int, bit: int) -> bool:
    return ours == _ROOT or bool(mode >> ours & bit)


@lru_cache(maxsize=4096)
def _perm(mode: int, ours: int, parent_writable: bool, read_only: bool) -> str:
    """The fact Perm (RFC 3659 section 7.5.5)."""
    readable, writable = _allows(mode, ours, 4), _allows(mode, ours, 2) and not read_only
    movable = "df" if parent_writable else ""
    if stat.S_ISDIR(mode):
        enterable = _allows(mode, ours, 1)
        return ("cmp" if writable else "") + ("e" if enterable else "") + ("l" if readable else "") + movable
    return ("aw" if writable else "") + ("r" if readable else "") + movable


@lru_cache(maxsize=2048)
def _name(entry_of: Callable[[int], Any], number: int) -> str:
    """The name in an entry of the accounts or of the groups; the number where there is none."""
    try:
        return str(entry_of(number)[0])
    except KeyError:
        return str(number)


def _long_line(name: str, found: os.stat_result) -> bytes:
    moment = (moment_of(found.st_mtime) or EPOCH).timetuple()
    recent = abs(time.time() - found.st_mtime) < 180 * 24 * 3600
    date = time.strftime("%b %d %H:%M" if recent else "%b %d  %Y", moment)
    owner, group = _name(getpwuid, found.st_uid), _name(getgrgid, found.st_gid)
    line = f"{stat.filemode(found.st_mode)} {found.st_nlink:3} {owner:8} {group:8} {found.st_size:12} {date} {name}"
    return printable_name(os.fsencode(line))
