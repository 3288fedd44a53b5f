"""The folders of a walk, and the contents of one folder. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, Kind, Side
from transferapi.tasks.records import FoundFile


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to list, with paths that do not end with a slash. destination is None for a DELETE."""

    source: str
    destination: str | None
    depth: int = 0
    #: The folder was just made at the destination, so it is empty there.
    fresh: bool = False
    #: Where symlinks are followed: the identity of the source folder, and the folder it was found in.
    unique: str = ""
    above: Folder | None = None


@dataclass(slots=True)
class FolderListing:
    """The contents of one folder. found: entries not yet decided upon."""

    found: list[FoundFile] = field(default_factory=list)
    #: Links that are followed within one endpoint: destination -> identity of the link's target.
    followed: dict[str, str] = field(default_factory=dict)
    folders: list[Folder] = field(default_factory=list)
    symlinks: int = 0
    #: Pipes, sockets, devices: they cannot be transferred.
    specials: int = 0


def request_fault(kind: Kind, why: str, side: Side = Side.SOURCE, raw: str = "") -> Fault:
    """A fault of the request itself: a retry cannot succeed."""
    return Fault(kind, side, retryable=False, advice=why, raw=raw)


def loop_fault(folder: Folder, entry: Entry) -> Fault | None:
    """The fault of following this link into a folder, if any: it makes a loop, or a loop could not be noticed."""
    if not entry.unique:
        why = "The source's server does not identify folders, so a loop of symbolic links could not be noticed."
        return Fault(Kind.UNSUPPORTED, Side.SOURCE, retryable=False, advice=why, raw=folder.source)
    above: Folder | None = folder
    while above is not None:
        if above.unique == entry.unique:
            why = f"This symbolic link leads to one of its own parent folders: {folder.source}/{entry.name}"
            return request_fault(Kind.INVALID_SYMLINK, why)
        above = above.above
    return None
