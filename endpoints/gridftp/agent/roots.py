"""The folders of this machine that the agent serves, as its user names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from endpoints.gridftp.server import RootPart


class RootError(ValueError):
    """A folder cannot be served; the text is for the person."""


def parts(folders: Iterable[str], read_only: Iterable[str] = ()) -> list[RootPart]:
    """Several folders appear by their names, /Documents and /data; one alone is the whole endpoint.

    A name that is taken gets a number. Raises RootError.
    """
    named = [(one, True) for one in folders] + [(one, False) for one in read_only]
    found = [(_folder(text), writable) for text, writable in named]
    if len({path for path, _ in found}) < len(found):
        raise RootError("One folder is named twice.")
    _require_unchangeable(found)
    if len(found) == 1:
        return [RootPart(str(found[0][0]), "", found[0][1])]
    taken: set[str] = set()
    return [RootPart(str(path), _name(path, taken), writable) for path, writable in found]


def default_folder() -> Path:
    """A folder of its own, so that nothing can be seen that was not put there."""
    return Path.home() / "Waybill"


def shown(roots: Iterable[RootPart]) -> list[str]:
    """Lines for people."""
    return [
        f"{root.path}{' as /' + root.name if root.name else ''}{'' if root.writable else ' (read only)'}"
        for root in roots
    ]


def _folder(text: str) -> Path:
    path = Path(text).expanduser()
    try:
        path = path.resolve(strict=True)
        os.scandir(path).close()
    except OSError as error:
        raise RootError(f"{text} cannot be served: {error.strerror}") from None
    return path


def _require_unchangeable(folders: Iterable[tuple[Path, bool]]) -> None:
    """Raises RootError for a read-only folder inside a writable one, by whose name it could be changed."""
    named = list(folders)
    writable = [path for path, may_change in named if may_change]
    for path, may_change in named:
        around = () if may_change else (path, *path.parents)
        for one in writable:
            if any(one.samefile(above) for above in around):
                raise RootError(
                    f"{path} is inside {one}, which may be changed: give {one} with --read-only too, or other folders."
                )


def _name(path: Path, taken: set[str]) -> str:
    stem = re.sub(r"[\x00-\x1f/\\:]", "_", path.name or path.drive.rstrip(":")) or "root"
    name, number = stem, 2
    while name.lower() in taken or name in ("~", ".", ".."):
        name, number = f"{stem}-{number}", number + 1
    taken.add(name.lower())
    return name
