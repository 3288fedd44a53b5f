"""Where the matrix plays."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that everybody may enter; in memory where there is one, for the matrix writes thousands of files."""
    folder = Path(tempfile.mkdtemp(prefix="waybill-faults-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)
