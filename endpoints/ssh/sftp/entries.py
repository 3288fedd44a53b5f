"""Entries of listings, made of the attributes of SFTP version 3."""

from __future__ import annotations

import stat
from datetime import UTC, datetime

import asyncssh

from endpoints.gridftp.facts import Entry

_MAX_SIZE = 2**63 - 1


def has_link(attrs: asyncssh.SFTPAttrs) -> bool:
    """Whether these are the attributes of a symlink."""
    return attrs.permissions is not None and stat.S_ISLNK(attrs.permissions)


def entry_of(
    name: str, attrs: asyncssh.SFTPAttrs, longname: bytes | str | None = None, *, target: str | None = None
) -> Entry:
    """An entry. longname: the line of `ls -l` in a listing, which has the names of owner and group."""
    mode = attrs.permissions or 0
    owner, group = _names(longname) if longname else ("", "")
    return Entry(
        name,
        _kind(mode),
        size=min(attrs.size or 0, _MAX_SIZE),
        modified=datetime.fromtimestamp(attrs.mtime, UTC) if attrs.mtime is not None else None,
        mode=f"{stat.S_IMODE(mode):04o}" if attrs.permissions is not None else "",
        owner=owner or _number(attrs.uid),
        group=group or _number(attrs.gid),
        link_target=target,
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "dir"
    special = mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)
    return "OS.unix=special" if special and not stat.S_ISLNK(mode) else "link" if special else "file"


def _names(longname: bytes | str) -> tuple[str, str]:
    text = longname if isinstance(longname, str) else longname.decode("utf-8", "replace")
    words = text.split(None, 4)
    return (words[2], words[3]) if len(words) == 5 else ("", "")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
