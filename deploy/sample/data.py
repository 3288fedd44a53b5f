"""The data of the sample endpoints: three small files, and a folder to transfer."""

from __future__ import annotations

import random
from pathlib import Path

from deploy.stack.errors import naming

MB = 1_000_000
SMALL_FILES = 300
LARGE_SIZE = 64 * MB
#: The folder that `make up` transfers, as the endpoints see it.
FOLDER = "/share/sample/"


def make_sample_data(source: Path, destination: Path) -> None:
    """Fill the folder of go#ep1 and create the empty one of go#ep2; a complete folder is left alone.

    Raises OSError with the path.
    """
    with naming(source):
        _make(source, destination)


def _make(source: Path, destination: Path) -> None:
    destination.mkdir(mode=0o700, parents=True, exist_ok=True)
    if source.exists():
        return
    fresh = source.with_name(source.name + ".new")
    godata = fresh / "share" / "godata"
    godata.mkdir(parents=True, exist_ok=True)
    for number in (1, 2, 3):
        (godata / f"file{number}.txt").write_text(f"This is file {number} of the sample data.\n" * number)
    _fill(fresh / FOLDER.strip("/"))
    fresh.rename(source)


def _fill(folder: Path) -> None:
    """300 files of 0 to 8 KB in three folders, and one of 64 MB; the same bytes on every machine."""
    noise = random.Random(42)  # noqa: S311 - sample data
    for number in range(SMALL_FILES):
        file = folder / f"run{number % 3 + 1}" / f"sample-{number:03}.dat"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(noise.randbytes(noise.randrange(8192)))
    with (folder / "large.dat").open("wb") as large:
        for _ in range(LARGE_SIZE // MB):
            large.write(noise.randbytes(MB))


def sizes(folder: Path) -> tuple[int, int]:
    """The number of files below a folder, and of their octets."""
    found = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(found), sum(found)
