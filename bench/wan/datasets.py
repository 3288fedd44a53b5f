"""The files that are moved, and whether they arrived."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MB = 10**6
PIECE = 16 * MB


@dataclass(frozen=True)
class DataSet:
    """`files` files of the same size, `total` octets in all (less than one file's worth is left over)."""

    name: str
    files: int
    total: int

    @property
    def size(self) -> int:
        """Octets of one file."""
        return self.total // self.files

    def make(self, folder: Path) -> dict[str, str]:
        """Write the files, all with different random contents; their hashes by name."""
        folder.mkdir()
        for number in range(self.files):
            _write(folder / f"file{number:05d}", self.size)
        return hashes(folder)


#: The rows of the table.
COUNTS = {"DS1": 1, "DS2": 4, "DS3": 16, "DS4": 64, "DS5": 256, "DS6": 2560}


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of all files below, by their paths."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def octets_below(folder: Path) -> int:
    """The octets that are stored there, without the holes of unfinished files."""
    return sum(min(path.stat().st_blocks * 512, path.stat().st_size) for path in folder.rglob("*") if path.is_file())


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _write(path: Path, size: int) -> None:
    with path.open("wb") as file:
        while size:
            piece = os.urandom(min(size, PIECE))
            file.write(piece)
            size -= len(piece)
