"""Folders of the source on their way through a walk, and what was seen in one. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, Kind, Side

from .ports import Found


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to be listed, paths without a slash at the end. destination is None where there is none (DELETE)."""

    source: str
    destination: str | None
    depth: int = 0
    #: It was made just now: nothing is in it at the destination.
    fresh: bool = False
    #: Where symlinks are followed: the identity of the source's folder, and the folder it was found in.
    unique: str = ""
    above: Folder | None = None


@dataclass(slots=True)
class Listing:
    """What one folder holds. found: what is not decided upon yet."""

    found: list[Found] = field(default_factory=list)
    #: Of links that are followed within one endpoint: destination, and the identity of what the link leads to.
    followed: dict[str, str] = field(default_factory=dict)
    folders: list[Folder] = field(default_factory=list)
    symlinks: int = 0
    #: Pipes, sockets, devices: nothing that could be moved.
    specials: int = 0


def request_fault(kind: Kind, why: str, side: Side = Side.SOURCE, raw: str = "") -> Fault:
    """A fault of the request itself: no repetition helps."""
    return Fault(kind, side, retryable=False, advice=why, raw=raw)


def loop(folder: Folder, entry: Entry) -> Fault | None:
    """What is wrong with following this link into a folder, if anything: it would never end, or nobody could tell."""
    if not entry.unique:
        why = "The source's server does not tell folders apart, so that a loop of symbolic links could not be seen."
        return Fault(Kind.UNSUPPORTED, Side.SOURCE, retryable=False, advice=why, raw=folder.source)
    above: Folder | None = folder
    while above is not None:
        if above.unique == entry.unique:
            why = f"This symbolic link leads to a folder that it lies in: {folder.source}/{entry.name}"
            return request_fault(Kind.INVALID_SYMLINK, why)
        above = above.above
    return None
