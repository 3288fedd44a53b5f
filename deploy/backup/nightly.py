"""Which backups of `waybill nightly-backup` stay.

Nothing is deleted before the new backup is complete, and only files whose names this command gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

#: Of a backup, of its keys (`KEYS` follows), and of a file that a killed backup has left (`.NAME.*.part`).
NAME, KEYS = re.compile(r"waybill-\d{4}-\d\d-\d\dT\d{6}Z"), ".keys"
_LEFT = re.compile(rf"\.({NAME.pattern})({re.escape(KEYS)})?\..*\.part")


def delete_old(folder: Path, keys: Path | None, keep: int) -> int:
    """Keep the newest backups, and the keys of these; return how many files were deleted.

    The caller is the only one: so unfinished files are those of backups that were killed.
    """
    names = sorted(path.name for path in folder.iterdir() if NAME.fullmatch(path.name))
    kept = {*names[-keep:]}
    old = [folder / name for name in names if name not in kept] + _unfinished(folder)
    if keys is not None:
        old += [path for path in keys.iterdir() if _is_keys_beyond(path.name, kept)] + _unfinished(keys)
    for path in old:
        path.unlink()
    return len(old)


def _is_keys_beyond(name: str, kept: Collection[str]) -> bool:
    """Whether these are the keys of a backup that is not kept."""
    backup = name.removesuffix(KEYS)
    return name.endswith(KEYS) and NAME.fullmatch(backup) is not None and backup not in kept


def _unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _LEFT.fullmatch(path.name)]
