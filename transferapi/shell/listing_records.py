"""The lines of `ls`: names, or seven columns as `ls -l` of Unix has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from endpoints.gridftp.facts import Entry
from identity.gsi.printable import ACTIVE, inert

from .output import UNSET, value_text

_BITS = "rwxrwxrwx"
_UNKNOWN = "?"


def itself(entry: Entry, name: str) -> Entry:
    """The line of a folder in its own listing: `.` or `..`."""
    return entry._replace(name=name, kind="dir", link_target=None)


def short(entries: Iterable[Entry]) -> Iterator[str]:
    """One name a line; folders end in `/`."""
    return (f"{_name(entry)}\n" for entry in entries)


def long(entries: Sequence[Entry]) -> Iterator[str]:
    """mode owner group size date time name: exactly seven columns, separated by blanks. A link is `name -> target`."""
    owner, group, size = (_width(entries, get) for get in (_owner, _group, _size))
    for entry in entries:
        facts = f"{_owner(entry):<{owner}} {_group(entry):<{group}} {_size(entry):>{size}} {_moment(entry)}"
        yield f"{_mode(entry)} {facts} {_long_name(entry)}\n"


def _width(entries: Sequence[Entry], get: Callable[[Entry], str]) -> int:
    return max(map(len, map(get, entries)), default=0)


def _name(entry: Entry) -> str:
    return shown(entry.name) + "/" * (entry.is_directory and not entry.is_link)


def _long_name(entry: Entry) -> str:
    return f"{shown(entry.name)} -> {shown(entry.link_target)}" if entry.link_target else _name(entry)


def shown(name: str) -> str:
    """A name on one line: one with active characters is written as Bash reads it, `$'...'`."""
    if not ACTIVE.search(name):
        return name
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{inert(quoted)}'"


def _word(text: str) -> str:
    """A fact as one column."""
    return "".join("_" if letter.isspace() else letter for letter in ACTIVE.sub("_", text)) or _UNKNOWN


def _fact(name: str, entry: Entry) -> str:
    return _word(getattr(entry, name))


_owner, _group = partial(_fact, "owner"), partial(_fact, "group")


def _size(entry: Entry) -> str:
    return str(entry.size)


def _moment(entry: Entry) -> str:
    """Date and time in UTC."""
    return f"{UNSET} {UNSET}" if entry.modified is None else value_text(entry.modified)


def _mode(entry: Entry) -> str:
    letter = "l" if entry.is_link else "d" if entry.is_directory else "-"
    try:
        bits = int(entry.mode, 8)
    except ValueError:
        return letter + _UNKNOWN * len(_BITS)
    return letter + "".join(bit if bits >> (8 - at) & 1 else "-" for at, bit in enumerate(_BITS))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name fits: `*` stands for any text, every other character for itself. It takes linear time."""
    first, *inner, last = pattern.split("*")

    def fits(name: str) -> bool:
        if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
            return False
        at, end = len(first), len(name) - len(last)
        for part in inner:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits
