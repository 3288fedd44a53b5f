"""SITE RESTRICT: the list of folders that a session is kept within, in the words of each kind of server.

The toolkit's server compares the resolved path of each command with the list. When it hears the list, it adds to it
where the folders lead by then: a folder that has become a symbolic link meanwhile opens what the link leads to. A
pattern is compared as it is written, and is added to nothing if no file has that name. So the toolkit's server is told
patterns that match one path each, and that name a folder in the root of the file system which nobody but its
administrator can make: `/srv[/]shared` matches `/srv/shared` only, and as a name it begins in the folder `/srv[`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from .faults import FaultError, Kind, Scope, make_fault

NOT_CONFINED = "The server cannot keep a session within a folder (SITE RESTRICT), and a shared endpoint needs that."
NO_STARS = 'A folder with "*" in its path cannot be shared by this server: others of its kind take that for any name.'
FRONT_END = "The server stands before data nodes and follows every symbolic link: it can only be shared as a whole."
TOO_MANY_GROUNDS = "More folders are shared with this user than a server can be told; share fewer, larger ones."

#: What fnmatch(3) does not take for itself.
_SPECIAL = re.compile(rb"[*?\[\\]")
#: Of a pattern, as it goes over the wire: the list is split at commas, an entry at a colon.
_AS_IT_IS = "/[]*?\\"


class Ground(NamedTuple):
    """A folder of a server, with all that is in it."""

    path: str
    write: bool


def restriction(grounds: Sequence[tuple[bool, bytes]], *, patterns: bool) -> bytes:
    """The argument of SITE for these folders: (may be written, path as it goes over the wire).

    patterns: for the toolkit's server. For others a folder with "*" in its path is left out: one that is akin to the
    toolkit's would take it for all folders that begin so. b"": none is left.
    """
    words = _patterns if patterns else _plain
    entries = [("RW" if write else "R") + word for write, path in grounds for word in words(path)]
    return b"RESTRICT " + ",".join(entries).encode("ascii") if entries else b""


def _plain(path: bytes) -> list[str]:
    return [] if b"*" in path else [quote(path, safe="/")]


def _patterns(path: bytes) -> list[str]:
    """The folder, and all that is in it: "*" matches "/", too."""
    names = [_SPECIAL.sub(rb"\\\g<0>", name) for name in path.split(b"/") if name]
    if not names:
        return ["/"]
    first, *rest = names
    folder = b"/" + first + b"[/]" + b"/".join(rest) if rest else b"/" + first
    return [quote(pattern, safe=_AS_IT_IS) for pattern in (folder, folder + b"/*")]


def not_restricted(kind: Kind, why: str, raw: str = "") -> FaultError:
    """This server cannot keep a session in these folders."""
    return FaultError(replace(make_fault(kind, raw, retryable=False), scope=Scope.ENDPOINT, advice=why))
