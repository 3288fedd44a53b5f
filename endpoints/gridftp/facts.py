"""MLSx facts (RFC 3659 section 7): parsing for the client, formatting for the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a listing.

    name: last path component, surrogateescape str. kind: "file", "dir", "link" (dangling or shown as such) or
    another type of the server ("OS.unix=pipe"). size in octets. mode is the octal permission string ("0644") or "".
    link_target is set when the thing is a symlink; the other facts then tell of its target, as the servers do.
    """

    name: str
    kind: str
    size: int = 0
    modified: datetime | None = None
    mode: str = ""
    owner: str = ""
    group: str = ""
    link_target: str | None = None
    unique: str = ""

    @property
    def is_directory(self) -> bool:
        return self.kind in ("dir", "cdir", "pdir")
