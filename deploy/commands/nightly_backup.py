"""`waybill nightly-backup`: a backup by a timer, in a file named by the time; the oldest ones are deleted.

Nothing is deleted before the new backup is complete, and only files whose names this command gives.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from deploy.stack.errors import StackError
from deploy.stack.places import lock_of
from transferapi.config import Config

from .base import Commands, open_database

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


KEPT, MOST_KEPT = 14, 1000


def declare(commands: Commands) -> None:
    """Add the command to the parser."""
    nightly = commands.add(
        "nightly-backup", run_nightly, "write a backup, named by the time, and delete the oldest ones"
    )
    nightly.add_argument("folder", type=Path, metavar="FOLDER", help="a folder for backups")
    nightly.add_argument("--keys", type=Path, metavar="FOLDER", help="another folder, for the keys and other secrets")
    nightly.add_argument(
        "--keep", type=_kept, default=KEPT, metavar="N", help=f"how many stay, 1 to {MOST_KEPT} (default {KEPT})"
    )


def _kept(text: str) -> int:
    """Parse `--keep`. Raises ArgumentTypeError."""
    number = int(text) if re.fullmatch("[0-9]{1,4}", text) else 0
    if not 1 <= number <= MOST_KEPT:
        raise argparse.ArgumentTypeError(f"1 to {MOST_KEPT} backups")
    return number


def run_nightly(config: Config, arguments: argparse.Namespace) -> None:
    """Back up into the folder, and delete backups that are older than asked. Raises StackError, OSError."""
    open_database()
    from deploy.backup import dump

    folder, keys = arguments.folder, arguments.keys
    if keys is not None and keys.resolve() == folder.resolve():
        raise StackError("the keys have a folder of their own: together with a backup they open every credential")
    for place in filter(None, (folder, keys)):
        if not place.is_dir():
            raise StackError(f"{place} is no folder")
    with lock_of(folder, f"another backup into {folder} is under way"):
        file = folder / f"waybill-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
        manifest, _ = dump.back_up(config, file, keys / f"{file.name}{KEYS}" if keys else None)
        deleted = delete_old(folder, keys, arguments.keep)
    octets = manifest["parts"]["database.dump"]["size"]
    sys.stdout.write(f"{file}: {octets} octets of the database; {deleted} older files deleted\n")
