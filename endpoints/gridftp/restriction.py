"""SITE RESTRICT: the list of folders that a session is kept within, in the syntax of each kind of server.

The toolkit's server compares the resolved path of each command with the list. When it receives the list, it resolves
the folders and adds the results: a folder that has become a symbolic link meanwhile allows the target of the link. It
compares a pattern as it is written, and resolves it only where a file has that very name. So the toolkit's server gets
patterns that match one path each, and whose text as a name lies in a folder in the root of the file system that only
its administrator can make: `/srv[/]shared` matches `/srv/shared` only, and as a name it begins in the folder `/srv[`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote

from .faults import FaultError, FaultScope, Kind, make_fault

NOT_CONFINED = "The server cannot keep a session within a folder (SITE RESTRICT), and a shared endpoint needs that."
NO_STARS = 'A folder with "*" in its path cannot be shared by this server, which may read that as a wildcard.'
FRONT_END = "The server stands before data nodes and follows every symbolic link: it can only be shared as a whole."
TOO_MANY_FOLDERS = "More folders are shared with this user than one SITE RESTRICT can name; share fewer, larger ones."

#: The characters with a meaning in fnmatch(3).
_SPECIAL = re.compile(rb"[*?\[\\]")
#: The characters of a pattern that are not percent-encoded; commas and colons are separators.
_AS_IT_IS = "/[]*?\\"


class AllowedPath(NamedTuple):
    """A folder of a server, with all that is in it."""

    path: str
    write: bool


def restriction(allowed_paths: Sequence[tuple[bool, bytes]], *, patterns: bool) -> bytes:
    """The argument of SITE for these folders, (writable, encoded path); b"" where none is left.

    patterns: for the toolkit's server. For others a folder with "*" in its path is left out: a relative of the
    toolkit's server would read it as a wildcard.
    """
    words = _patterns if patterns else _plain
    entries = [("RW" if write else "R") + word for write, path in allowed_paths for word in words(path)]
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
    """The fault of a server that cannot keep a session in these folders."""
    return FaultError(replace(make_fault(kind, raw, retryable=False), scope=FaultScope.ENDPOINT, advice=why))
