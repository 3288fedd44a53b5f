"""Folders that lie in memory where the machine has such a place, and the memory of this process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_in_memory(prefix: str, mode: int) -> Iterator[Path]:
    """A new folder with these permissions, removed at the end. Tests write a lot, and nothing of it is kept."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    folder.chmod(mode)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def forget_peak() -> None:
    """Let VmHWM of this process begin anew (man 5 proc, clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")


def resident(name: str) -> int:
    """Octets of memory of this process: VmRSS now, VmHWM at most. `tracemalloc` makes a parser ten times slower."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024
