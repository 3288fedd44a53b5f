"""Random trees: what is made, and what is found."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from pathlib import Path

LARGEST = 20_000_000
MOST_FILES = 60
NASTY = (
    "{} leading and trailing ",
    "two  spaces {}",
    "{};Type=dir; x",
    "*?[{}]",
    "~{}",
    '"{}" quoted',
    "back\\slash {}",
    "%2F{}#?&",
    "-{}",
    ".{}",
    "...{}",
    "{}" + "x" * 200,
)
#: Only where both channels carry them.
BEYOND_ASCII = ("naïve {}", "数据 {}", "decomposed é {}")


@dataclass(frozen=True)
class Found:
    """A tree: hash and whole seconds of the modification time by relative path; and its folders."""

    files: dict[str, tuple[str, int]]
    folders: frozenset[str]
    octets: int

    @property
    def hashes(self) -> dict[str, str]:
        return {path: value for path, (value, _) in self.files.items()}


def make_tree(folder: Path, dice: random.Random, *, ascii_only: bool) -> None:
    """1 to 60 files of 0 to 20 MB, most of them small, in folders some of which are empty."""
    folders = [folder]
    for number in range(dice.randrange(6)):
        folders.append(dice.choice(folders) / _name(dice, number, ascii_only))
    for path in folders:
        path.mkdir(parents=True, exist_ok=True)
    for number in range(int(MOST_FILES ** dice.random())):
        path = dice.choice(folders) / f"{_name(dice, number, ascii_only)}.dat"
        path.write_bytes(dice.randbytes(_size(dice)))


def look_at(folder: Path) -> Found:
    files, folders, octets = {}, set(), 0
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_dir():
            folders.add(name)
            continue
        with path.open("rb") as file:
            files[name] = hashlib.file_digest(file, "sha1").hexdigest(), int(path.stat().st_mtime)
        octets += path.stat().st_size
    return Found(files, frozenset(folders), octets)


def _name(dice: random.Random, number: int, ascii_only: bool) -> str:
    if dice.random() < 0.6:
        return f"n{number}"
    return dice.choice(NASTY if ascii_only else NASTY + BEYOND_ASCII).format(number)


def _size(dice: random.Random) -> int:
    """A heavy tail: the median is 20 kB, one in thirty above a megabyte, and now and then the largest."""
    if dice.random() < 0.05:
        return 0
    return min(LARGEST, int(dice.lognormvariate(10, 2.2)))
