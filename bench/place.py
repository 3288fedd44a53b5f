"""The folder of benchmarks' files: in memory, so that no disk is measured."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workplace() -> Iterator[Path]:
    """A new folder in shared memory where there is any, open to the account that servers run as; removed after."""
    shared_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared_memory, prefix="waybill-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        yield root
