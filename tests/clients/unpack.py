"""Check and unpack the package of npm in a folder: `unpack.py FOLDER sha512-BASE64`. Called by `install.sh`."""

from __future__ import annotations

import base64
import hashlib
import sys
import tarfile
from pathlib import Path


def unpack(folder: Path, integrity: str) -> None:
    """Raises ValueError where the file is not the one that the lock names; it is then removed."""
    [archive] = folder.glob("*.tgz")
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    try:
        if found != integrity:
            raise ValueError(f"{archive.name} is {found}, and {integrity} is expected")
        with tarfile.open(archive) as opened:
            # PEP 706, where this Python has it: Debian 12 has 3.11.2, which has none.
            opened.extraction_filter = getattr(tarfile, "data_filter", None)
            opened.extractall(folder)
    finally:
        archive.unlink()


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), sys.argv[2])
