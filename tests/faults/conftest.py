"""The folder of the matrix of faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory import folder_in_memory


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that everybody may enter; the matrix writes thousands of files."""
    with folder_in_memory("waybill-faults-", 0o777) as folder:
        yield folder
