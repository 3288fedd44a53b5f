"""The files that the matrix moves, their folders, and the check of their arrival."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from endpoints.gridftp.faults import Kind
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import HEAD
from tests.faults.stations import KINDS, Station

#: Octets that lie at the destination of a file that is to be continued, beyond the head, which is not trusted.
BEGUN = 500_000


@dataclass(frozen=True)
class Piece:
    """One file of a scene. begun: the destination has most of it already, and its ranges are reported as present."""

    name: str
    size: int
    missing: bool = False
    blocked: bool = False  # a folder lies at the destination under its name
    temporary: bool = False
    begun: bool = False

    @property
    def good(self) -> bool:
        return not (self.missing or self.blocked)

    @cached_property
    def content(self) -> bytes:
        """Different from the content of other files in every part, so that misplaced octets are noticed."""
        seed = hashlib.sha256(self.name.encode()).digest()
        return (seed * (self.size // len(seed) + 1))[: self.size]


#: Neighbours have the same size in some scenes: only their content distinguishes them.
SCENES: dict[str, tuple[Piece, ...]] = {
    "plain": (Piece("a", 5000), Piece("b", 0), Piece("c", 300_000), Piece("d", 300_000)),
    "refused": (
        Piece("a", 70_000),
        Piece("b", 70_000, missing=True),
        Piece("c", 70_000),
        Piece("d", 1000, blocked=True),
        Piece("e", 70_000),
    ),
    "renamed": (
        Piece("a", 70_000, temporary=True),
        Piece("b", HEAD + 900_000, begun=True),
        Piece("c", 1000, temporary=True),
    ),
}
#: The kinds of fault of a file that cannot be moved.
REAL_REFUSALS = {Kind.FILE_NOT_FOUND, Kind.IS_A_DIRECTORY, Kind.PERMISSION_DENIED}


class Arena:
    """Two servers over one folder, for one case after another."""

    def __init__(self, root: Path, source: Station, destination: Station) -> None:
        self.root = root
        self.source = source
        self.destination = destination
        self.there = root / "there"

    async def ready(self) -> None:
        """Restart the servers that were killed."""
        await self.source.start()
        await self.destination.start()

    def thaw(self) -> None:
        self.source.thaw()
        self.destination.thaw()

    def end(self) -> None:
        self.thaw()
        self.source.end()
        self.destination.end()

    async def left_over(self) -> int:
        """Count the server sessions that do not end though their clients are gone, and kill them."""
        count = await self.source.empty() + await self.destination.empty()
        if count:
            self.end()
            await self.ready()
        return count

    def here(self, scene: str) -> Path:
        return self.root / f"here-{scene}"

    def set_up(self, scene: str) -> None:
        """The scene's files at the source, and a clean destination."""
        here = self.here(scene)
        if not here.exists():
            here.mkdir()
            for piece in SCENES[scene]:
                if not piece.missing:
                    (here / piece.name).write_bytes(piece.content)
        shutil.rmtree(self.there, ignore_errors=True)
        self.there.mkdir()
        self.there.chmod(0o777)
        for piece in SCENES[scene]:
            if piece.blocked:
                (self.there / piece.name).mkdir()
            if piece.begun:
                path = self.there / piece.name
                path.write_bytes(piece.content[: HEAD + BEGUN])
                path.chmod(0o666)

    def is_right(self, piece: Piece) -> bool:
        path = self.there / piece.name
        return path.is_file() and path.read_bytes() == piece.content

    def wrong(self, pieces: Collection[Piece]) -> list[str]:
        """Names of these settled pieces whose files are missing or wrong."""
        return [piece.name for piece in pieces if not self.is_right(piece)]


def on_disk(piece: Piece) -> RangeSet | None:
    """Return the ranges on disk, as an earlier lane would have reported them."""
    return RangeSet([(HEAD, HEAD + BEGUN)]) if piece.begun else None


@contextmanager
def arena(root: Path, source: str, destination: str) -> Iterator[Arena]:
    """An arena between servers of these kinds; they start with its first case."""
    root.chmod(0o777)
    place = Arena(root, KINDS[source](root), KINDS[destination](root))
    try:
        yield place
    finally:
        place.end()
